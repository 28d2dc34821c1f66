package plan

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/paused"
)

func TestMembershipOf(t *testing.T) {
	in := func(operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: operator, Values: values}}}
	}
	for _, c := range []struct {
		name     string
		selector metav1.LabelSelector
		fails    string
	}{
		{"labels", metav1.LabelSelector{MatchLabels: map[string]string{"pool": "web"}}, ""},
		{"expressions", in(metav1.LabelSelectorOpIn, "web", "shop"), ""},
		{"both", metav1.LabelSelector{
			MatchLabels: map[string]string{"tier": "front"}, MatchExpressions: in(metav1.LabelSelectorOpExists).MatchExpressions,
		}, ""},
		{"empty", metav1.LabelSelector{}, "spec.selector is empty"},
		{"empty, but there", metav1.LabelSelector{MatchLabels: map[string]string{}, MatchExpressions: []metav1.LabelSelectorRequirement{}},
			"spec.selector is empty"},
		{"a key that is none", metav1.LabelSelector{MatchLabels: map[string]string{"-": "web"}}, "spec.selector.matchLabels"},
		{"a value that is none", metav1.LabelSelector{MatchLabels: map[string]string{"pool": "-"}}, "spec.selector.matchLabels"},
		{"an operator that is none", in("Resembles", "web"), "spec.selector.matchExpressions[0].operator"},
		{"values where there may be none", in(metav1.LabelSelectorOpExists, "web"), "spec.selector.matchExpressions[0].values"},
		{"no values where there must be one", in(metav1.LabelSelectorOpIn), "spec.selector.matchExpressions[0].values"},
		{"not the template's labels", metav1.LabelSelector{MatchLabels: map[string]string{"pool": "shop"}}, "does not match spec.template.metadata.labels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := setOf(1)
			set.Spec.Selector = c.selector
			_, err := MembershipOf(set)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want %q", err, c.fails)
			}
			if selects := Selects(set, machineOf("a")); selects != (c.fails == "") {
				t.Errorf("selects: %v", selects)
			}
		})
	}
	if Selects(setOf(1), machineOf("a", relabel)) {
		t.Error("a Machine of another pool is selected")
	}
}

func TestMemberOf(t *testing.T) {
	full := Member{Linked: true, Ready: true, Labelled: true}
	with := func(edit func(*Member)) Member {
		m := full
		edit(&m)
		return m
	}
	for _, c := range []struct {
		name string
		edit func(*machinev1beta1.Machine)
		want Member
	}{
		{"nothing special", func(*machinev1beta1.Machine) {}, full},
		{"more labels than the template", func(m *machinev1beta1.Machine) { m.Labels["x"] = "y" }, full},
		{"a label of the template is missing", func(m *machinev1beta1.Machine) { delete(m.Labels, "tier") }, with(func(m *Member) { m.Labelled = false })},
		{"a label of the template is another", func(m *machinev1beta1.Machine) { m.Labels["tier"] = "back" }, with(func(m *Member) { m.Labelled = false })},
		{"no Node", noNode, Member{Labelled: true}},
		{"a Node that is gone", func(m *machinev1beta1.Machine) { m.Status.NodeRef.Name = "gone" }, Member{Labelled: true, Linked: true}},
		{"marked", annotated(machineapi.DeleteAnnotation, "yes"), with(func(m *Member) { m.Marked = true })},
		{"marked without a value", annotated(machineapi.DeleteAnnotation, ""), with(func(m *Member) { m.Marked = true })},
		{"marked the old way", annotated(machineapi.OldDeleteAnnotation, "yes"), with(func(m *Member) { m.Marked = true })},
		{"marked the old way, without a value", annotated(machineapi.OldDeleteAnnotation, ""), with(func(m *Member) { m.Marked = true })},
		{"annotated otherwise", annotated("machine.openshift.io/instance-state", "running"), full},
		{"an error's reason", withError("CreateError", ""), with(func(m *Member) { m.Failed = true })},
		{"an error's message", withError("", "no"), with(func(m *Member) { m.Failed = true })},
		{"an error that is empty", func(m *machinev1beta1.Machine) {
			m.Status.ErrorReason, m.Status.ErrorMessage = new(machinev1beta1.MachineStatusError("")), new("")
		}, full},
		{"the phase Failed", inPhase("Failed"), with(func(m *Member) { m.Failed = true })},
		{"the phase Running", inPhase("Running"), full},
		{"the authority of Cluster API", migrated, with(func(m *Member) { m.OtherAPI = true })},
		{"the authority on its way", func(m *machinev1beta1.Machine) { m.Status.AuthoritativeAPI = "Migrating" },
			with(func(m *Member) { m.OtherAPI = true })},
		{"the authority of this API", func(m *machinev1beta1.Machine) { m.Status.AuthoritativeAPI = "MachineAPI" }, full},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := machineOf("a", c.edit)
			got := memberOf(setOf(1), machine, map[string]*corev1.NodeCondition{"a": Readiness(nodeOf("a", corev1.ConditionTrue, start))})
			got.Machine, got.AvailableAt = nil, time.Time{}
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestMember_Available(t *testing.T) {
	for _, c := range []struct {
		name             string
		node             *corev1.Node
		minReady         int32
		ready, available bool
		remaining        time.Duration
	}{
		{name: "no Node", node: nil},
		{name: "a Node without conditions", node: &corev1.Node{}},
		{name: "not ready", node: nodeOf("a", corev1.ConditionFalse, start.Add(-time.Hour))},
		{name: "unknown", node: nodeOf("a", corev1.ConditionUnknown, start.Add(-time.Hour))},
		{name: "ready just now", node: nodeOf("a", corev1.ConditionTrue, start), ready: true, available: true},
		{name: "ready, by a clock that is ahead", node: nodeOf("a", corev1.ConditionTrue, start.Add(time.Second)), ready: true, remaining: time.Second},
		{name: "not for long enough", node: nodeOf("a", corev1.ConditionTrue, start.Add(-9*time.Second)), minReady: 10, ready: true,
			remaining: time.Second},
		{name: "for exactly long enough", node: nodeOf("a", corev1.ConditionTrue, start.Add(-10*time.Second)), minReady: 10, ready: true, available: true},
		{name: "for longer", node: nodeOf("a", corev1.ConditionTrue, start.Add(-time.Hour)), minReady: 10, ready: true, available: true},
		{name: "no transition time", node: nodeOf("a", corev1.ConditionTrue, time.Time{}), minReady: 10, ready: true, available: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := setOf(1)
			set.Spec.MinReadySeconds = c.minReady
			in := inputOf(set, machineOf("a"))
			in.Readiness["a"] = Readiness(c.node)
			d := Decide(in)
			m := d.Members[0]
			if m.Ready != c.ready || m.Available(start) != c.available {
				t.Errorf("ready %v, available %v", m.Ready, m.Available(start))
			}
			if remaining := d.Wake.Sub(start); !d.Wake.IsZero() && remaining != c.remaining || d.Wake.IsZero() != (c.remaining == 0) {
				t.Errorf("looks again in %s", remaining)
			}
		})
	}
}

func TestSameReadiness(t *testing.T) {
	ready := nodeOf("a", corev1.ConditionTrue, start)
	beat := ready.DeepCopy()
	beat.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(start)
	beat.Status.Conditions[0].Status = corev1.ConditionTrue
	beat.Labels = map[string]string{"x": "y"}
	for _, c := range []struct {
		name          string
		before, after *corev1.Node
		same          bool
	}{
		{"a heartbeat, a label, another condition", ready, beat, true},
		{"not ready any more", ready, nodeOf("a", corev1.ConditionUnknown, start), false},
		{"ready anew", ready, nodeOf("a", corev1.ConditionTrue, start.Add(time.Second)), false},
		{"no condition any more", ready, &corev1.Node{}, false},
		{"the first condition", &corev1.Node{}, ready, false},
		{"still no condition", &corev1.Node{}, &corev1.Node{}, true},
	} {
		if got := SameReadiness(c.before, c.after); got != c.same {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestSameHealth(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*machinev1beta1.Machine)
		same bool
	}{
		{"nothing", func(*machinev1beta1.Machine) {}, true},
		{"what providers write all the time", func(m *machinev1beta1.Machine) {
			m.Status.LastUpdated, m.Annotations["machine.openshift.io/instance-state"] = &metav1.Time{Time: start}, "running"
		}, true},
		{"another phase", inPhase("Running"), true},
		{"the phase Failed", inPhase("Failed"), false},
		{"an error", withError("CreateError", "no"), false},
		{"the Node", noNode, false},
		{"another Node", func(m *machinev1beta1.Machine) { m.Status.NodeRef = &corev1.ObjectReference{Name: "b"} }, false},
		{"the authority", migrated, false},
		{"a pause", annotated(paused.ClusterAPIAnnotation, ""), false},
	} {
		if got := SameHealth(machineOf("a"), machineOf("a", c.edit)); got != c.same {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if SameHealth(machineOf("a", withError("CreateError", "no quota")), machineOf("a", withError("CreateError", "no capacity"))) {
		t.Error("the status has the message of an error, so it counts")
	}
}
