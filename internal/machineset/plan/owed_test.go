package plan

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/machineapi"
)

func deletedAt(second int) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) {
		m.DeletionTimestamp = &metav1.Time{Time: start.Add(time.Duration(second) * time.Second)}
	}
}

func TestDecide_CreateFor(t *testing.T) {
	type edits []func(*machinev1beta1.Machine)
	replaced := edits{annotated(machineapi.TemplateHashAnnotation, "v1:old"), annotated(machineapi.ReplacingAnnotation, "true")}
	instead := func(value string) func(*machinev1beta1.Machine) {
		return annotated(machineapi.CreatedForAnnotation, value)
	}
	withoutNode := func(machine *machinev1beta1.Machine) { machine.Status.NodeRef = nil }
	for _, c := range []struct {
		name string
		// replicas is the number in the spec, reached the number in the status, and recorded the number in the annotation.
		replicas, reached int32
		recorded          string
		machines          map[string]edits
		want              string
		owed              int
		// failed is the record if none of them can be created, partly if the first one can.
		failed, partly string
	}{
		{"a new MachineSet", 2, 0, "", nil, "growth growth", 0, "", ""},
		{"replicas have grown", 3, 1, "", map[string]edits{"a": nil}, "growth growth", 0, "", ""},
		{"one is being deleted", 2, 2, "", map[string]edits{"a": nil, "b": {deletedAt(1)}}, "deleted/uid-of-b", 1, "2", ""},
		{"one is being deleted that was growth and has never had a Node", 2, 2, "",
			map[string]edits{"a": nil, "b": {deletedAt(1), instead("growth"), withoutNode}}, "growth/uid-of-b", 1, "2", ""},
		{"one is being deleted that was growth and had a Node", 2, 2, "",
			map[string]edits{"a": nil, "b": {deletedAt(1), instead("growth")}}, "deleted/uid-of-b", 1, "2", ""},
		{"one is gone", 2, 2, "", map[string]edits{"a": nil}, "deleted", 1, "2", ""},
		{"two are being deleted: the last one first", 2, 2, "", map[string]edits{"a": {deletedAt(1)}, "b": {deletedAt(2)}},
			"deleted/uid-of-b deleted/uid-of-a", 2, "2", "2"},
		{"one is being deleted, and replicas have grown", 3, 2, "", map[string]edits{"a": nil, "b": {deletedAt(1)}}, "deleted/uid-of-b growth", 1, "2", ""},
		{"one is being deleted that has been replaced, and replicas have grown", 3, 2, "",
			map[string]edits{"a": nil, "b": {deletedAt(1)}, "c": {instead("deleted/uid-of-b")}}, "growth", 0, "", ""},
		{"replicas have shrunk, and then one was deleted", 2, 2, "",
			map[string]edits{"a": nil, "b": {deletedAt(2)}, "c": {deletedAt(1)}, "d": {deletedAt(1)}}, "deleted/uid-of-b", 1, "2", ""},
		{"replicas have shrunk, and grow beyond what is still there", 4, 1, "", map[string]edits{"a": nil, "b": {deletedAt(1)}},
			"deleted/uid-of-b growth growth", 1, "2", ""},
		{"replicas have shrunk and grow again", 3, 1, "", map[string]edits{"a": nil}, "growth growth", 0, "", ""},
		{"one that was owed could not be created", 2, 1, "2", map[string]edits{"a": nil}, "deleted", 1, "2", ""},
		{"one that was owed could not be created, and replicas have grown", 3, 1, "2", map[string]edits{"a": nil}, "deleted growth", 1, "2", ""},
		{"two that were owed could not be created, and replicas have shrunk", 2, 1, "3", map[string]edits{"a": nil}, "deleted", 1, "2", ""},
		{"a record beyond replicas", 2, 0, "1000000", nil, "deleted deleted", 2, "2", "2"},
		{"a record that is not valid", 2, 0, "many", nil, "growth growth", 0, "", ""},
		{"one is being replaced", 2, 2, "", map[string]edits{"a": nil, "b": replaced}, "outdated/uid-of-b", 1, "2", ""},
		{"one is being replaced, another was deleted", 2, 2, "", map[string]edits{"a": {deletedAt(1)}, "b": replaced},
			"outdated/uid-of-b deleted/uid-of-a", 2, "2", "2"},
		{"one is being replaced, and replicas have grown", 3, 2, "", map[string]edits{"a": nil, "b": replaced}, "outdated/uid-of-b growth", 1, "2", ""},
		{"one has been replaced, and replicas have grown", 3, 3, "", map[string]edits{"a": nil, "b": replaced, "c": {instead("outdated/uid-of-b")}},
			"growth", 0, "", ""},
		{"one has been replaced, and its replacement is being deleted", 2, 3, "",
			map[string]edits{"a": nil, "b": replaced, "c": {instead("outdated/uid-of-b"), deletedAt(1)}}, "outdated/uid-of-b", 1, "2", ""},
		{"one that was to be replaced is being deleted", 2, 2, "", map[string]edits{"a": nil, "b": append(edits{deletedAt(1)}, replaced...)},
			"outdated/uid-of-b", 1, "2", ""},
		{"the template was undone, and one is gone", 2, 2, "", map[string]edits{"b": {annotated(machineapi.TemplateHashAnnotation,
			machineapi.TemplateOf(setOf(2)).Hash()), annotated(machineapi.ReplacingAnnotation, "true")}}, "deleted", 1, "2", ""},
		{"nothing is missing", 1, 1, "3", map[string]edits{"a": nil}, "", 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := setOf(c.replicas)
			set.Status.Replicas = c.reached
			if c.recorded != "" {
				set.Annotations = map[string]string{machineapi.ReachedReplicasAnnotation: c.recorded}
			}
			var machines []*machinev1beta1.Machine
			for name, edits := range c.machines {
				machines = append(machines, machineOf(name, edits...))
			}
			d := Decide(inputOf(set, machines...))
			if got := strings.Join(d.CreateFor, " "); got != c.want || d.Owed != c.owed || !d.Scaled {
				t.Errorf("got  %s, %d owed\nwant %s, %d owed", got, d.Owed, c.want, c.owed)
			}
			if got := d.Record(0, 0); got != c.failed {
				t.Errorf("the record is %q, want %q", got, c.failed)
			}
			if got := d.Record(1, 0); got != c.partly {
				t.Errorf("the record after the first one is %q, want %q", got, c.partly)
			}
		})
	}
}

// TestDecide_CreateForWhileItGrows: Machines that are owed come first, also where a reconciliation creates only some of the missing ones.
func TestDecide_CreateForWhileItGrows(t *testing.T) {
	set := setOf(5000)
	set.Status.Replicas = 2
	d := Decide(inputOf(set, machineOf("a"), machineOf("b", deletedAt(1))))
	if len(d.CreateFor) != Burst || d.CreateFor[0] != "deleted/uid-of-b" || d.CreateFor[1] != "growth" || d.Owed != 1 {
		t.Errorf("%d, %v first, %d owed", len(d.CreateFor), d.CreateFor[:2], d.Owed)
	}
	// A Machine for growth was created, and the owed Machine was not.
	if got := d.Record(0, 1); got != "3" {
		t.Errorf("the record is %q", got)
	}
}

func TestDecide_CreateForFailed(t *testing.T) {
	in := inputOf(setOf(1), machineOf("a", inPhase(machinev1beta1.PhaseFailed)))
	in.ReplaceFailed = true
	if d := Decide(in); d.Replace == nil || d.Record(0, 0) != "1" || d.Record(1, 0) != "" {
		t.Errorf("%+v", d)
	}
}
