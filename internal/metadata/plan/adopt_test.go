package plan

import (
	"testing"

	"github.com/drover-io/drover/internal/ownership"
)

// The first reconciliation does not write a Machine that was created with its record. It writes a Machine without a record once.
func TestAdopt_MachineNeedsNoWrite(t *testing.T) {
	for _, c := range []struct {
		name, labels, taints, paused string
		written                      bool
	}{
		{name: "labels and taints", labels: "team=blue zone=a", taints: "a:NoSchedule b=1:NoExecute"},
		{name: "nothing declared"},
		{name: "a key of the system", labels: "kubernetes.io/os=x team=blue"},
		// What the template has twice is removed from the Machine by the first reconciliation.
		{name: "a taint twice", labels: "team=blue", taints: "a:NoSchedule a=1:NoSchedule"},
		{name: "paused", labels: "team=blue", paused: "true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld().labels(c.labels).taints(c.taints)
			if c.paused != "" {
				w.annotate(AnnotationPaused, c.paused)
			}
			w.node = nil
			w.machine.Status.NodeRef = nil
			w.machine.Spec.Labels, w.machine.Spec.Taints = w.set.Spec.Template.Spec.Labels, w.set.Spec.Template.Spec.Taints
			before := w.decide()
			Adopt(w.set, w.machine, w.protected, w.now)
			_, noted := w.machine.Annotations[ownership.AnnotationRecord]
			after := w.decide()
			unchanged := true
			for _, result := range before.Machine.Results {
				unchanged = unchanged && !result.Changed()
			}
			if noted != (before.Machine.Write && unchanged) || noted && after.Machine.Write {
				t.Errorf("noted %v\nbefore %+v\nafter %+v", noted, before.Machine, after.Machine)
			}
		})
	}
}

// TestAdopt_MachineDiffersFromTemplate: a Machine that lacks what the template declares gets no record, which would name what it does not have; its
// first reconciliation writes both.
func TestAdopt_MachineDiffersFromTemplate(t *testing.T) {
	w := newWorld().labels("team=blue zone=a").taints("a:NoSchedule")
	w.machine.Spec.Labels = fields("team=blue")
	Adopt(w.set, w.machine, w.protected, w.now)
	if record, found := w.machine.Annotations[ownership.AnnotationRecord]; found {
		t.Errorf("the Machine has the record %s", record)
	}
	w.pass(t)
	w.expect(t, "machine: team=blue zone=a | a:NoSchedule; node: team=blue zone=a | a:NoSchedule")
	record, err := ownership.ParseRecord(w.machine.Annotations[ownership.AnnotationRecord])
	if err != nil || !record.Labels.Equal(ownership.NewKeys("team", "zone")) {
		t.Errorf("the record of the Machine is %+v (%v)", record, err)
	}
}
