package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// A new Machine is made from the template as it stands, with what the API server would not take on a Node.
func TestDecide_InvalidEntriesOfAMachine(t *testing.T) {
	w := newWorld().labels("team=blue -bad=x long=" + longValue).annotations("note=x a//b=1").taints("a:Sometimes -t:NoSchedule good:NoSchedule")
	spec := w.set.Spec.Template.Spec
	w.machine.Spec.Labels, w.machine.Spec.Annotations, w.machine.Spec.Taints = spec.Labels, spec.Annotations, spec.Taints
	decision := w.pass(t)
	want := "annotation a//b Invalid, label -bad Invalid, label long Invalid, taint -t:NoSchedule Invalid, taint a:Sometimes Invalid"
	if decision.Settled != RefusedState || reasons(decision.Problems) != want {
		t.Errorf("%s, %s", decision.Settled, reasons(decision.Problems))
	}
	if got := w.where(); got != "machine: -bad=x long="+longValue+" team=blue | a//b=1 note=x | a:Sometimes -t:NoSchedule good:NoSchedule; "+
		"node: team=blue | note=x | good:NoSchedule" {
		t.Error(got)
	}
	if record := w.record(t); !record.Owned(ownership.Label).Equal(ownership.NewKeys("team")) {
		t.Errorf("record %+v", record)
	}
}

const longValue = "0123456789012345678901234567890123456789012345678901234567890123456789"

// A declaration of the same key overrides the Machine's own value; what only the Machine has is reported.
func TestDecide_InvalidEntriesThatOnlyTheMachineHas(t *testing.T) {
	w := newWorld().labels("team=blue")
	w.machine.Spec.Labels = fields("team=-x- hand=-y-")
	w.machine.Spec.Taints = []corev1.Taint{{Key: "a:b", Effect: "NoSchedule"}, {Key: "c"}}
	decision := w.pass(t)
	if want := "label hand Invalid, taint a:b:NoSchedule Invalid, taint c: Invalid"; reasons(decision.Problems) != want {
		t.Errorf("problems %s", reasons(decision.Problems))
	}
	w.expect(t, "machine: hand=-y- team=blue | a:b:NoSchedule c:; node: team=blue")
	w.machine.Spec.Labels["hand"] = "fine"
	w.machine.Spec.Taints = nil
	if decision := w.pass(t); decision.Settled != Synced {
		t.Errorf("%+v", decision)
	}
	w.expect(t, "machine: hand=fine team=blue; node: hand=fine team=blue")
}
