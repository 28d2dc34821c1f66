package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// eventOf returns an event of an object.
func eventOf(resource string, object client.Object) Event {
	return Event{Ref{resource, client.ObjectKeyFromObject(object)}, object}
}

// TestTracker_ManySets: thousands of MachineSets that change at once do not have the Machines looked at for each of them.
func TestTracker_ManySets(t *testing.T) {
	tracker := compute(t, &Objects{})
	var machines, sets []Event
	for i := range 10_000 {
		machine := builder.Machine("tenant", fmt.Sprint("m-", i))
		machine.OwnerReferences = []metav1.OwnerReference{{Kind: kindMachineSet, Name: "other", UID: "other", Controller: new(true)}}
		machines = append(machines, eventOf(ResourceMachines, machine))
	}
	for i := range 4000 {
		set := builder.MachineSet("tenant", fmt.Sprint("s-", i), 1)
		set.UID = types.UID(set.Name)
		sets = append(sets, eventOf(ResourceSets, set))
	}
	tracker.Update(t.Context(), machines, nil, testTime)
	begun := time.Now()
	tracker.Update(t.Context(), sets, nil, testTime)
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("%d MachineSets took %s", len(sets), took)
	}
}

// TestTracker_GoneSets: nothing is kept of MachineSets that are gone, however many come and go.
func TestTracker_GoneSets(t *testing.T) {
	tracker := compute(t, &Objects{Nodes: []*corev1.Node{readyNode("n")}})
	for i := range 100 {
		set := builder.MachineSet("tenant", fmt.Sprint("s-", i), 1)
		set.UID, set.Spec.Selector.MatchLabels = types.UID(set.Name), map[string]string{"set": set.Name}
		set.Spec.Template.Spec.Labels = map[string]string{"tier": "gold"}
		machine := builder.Machine("tenant", "m", builder.WithNode("n"))
		machine.Labels = set.Spec.Selector.MatchLabels
		machine.OwnerReferences = []metav1.OwnerReference{{Kind: kindMachineSet, Name: set.Name, UID: set.UID, Controller: new(true)}}
		events := []Event{eventOf(ResourceSets, set), eventOf(ResourceMachines, machine)}
		tracker.Update(t.Context(), events, nil, testTime)
		for j := range events {
			events[j].Object = nil
		}
		tracker.Update(t.Context(), events, nil, testTime)
	}
	if len(tracker.sums)+len(tracker.counted)+len(tracker.declarations)+len(tracker.waits)+len(tracker.activities) != 0 {
		t.Errorf("kept: sums %v, counted %v, declarations %v, waits %v, activities %v", tracker.sums, tracker.counted, tracker.declarations,
			tracker.waits, tracker.activities)
	}
}

// TestCell_OwnerName: the name in an owner reference is any text of any length.
func TestCell_OwnerName(t *testing.T) {
	machine := builder.Machine("tenant", "m", builder.WithNode("n"))
	machine.OwnerReferences = []metav1.OwnerReference{
		{Kind: kindMachineSet, Name: "\x1b[31m\u202e" + strings.Repeat("x", 100<<10), UID: "other", Controller: new(true)},
	}
	tracker := compute(t, &Objects{Nodes: []*corev1.Node{readyNode("n")}, Machines: []*machinev1beta1.Machine{machine}})
	cell, _ := tracker.Cells.Get("n")
	if len(cell.MachineSet) > 2*maxName || strings.ContainsAny(cell.MachineSet, "\x1b\u202e") || cell.MachineSet == "" {
		t.Errorf("%d bytes: %.100q", len(cell.MachineSet), cell.MachineSet)
	}
}

// TestLease_OfTheFuture: the operator takes a lease over whose renewal is in the future, because a wrong clock has set it. It is not valid on the
// page either.
func TestLease_OfTheFuture(t *testing.T) {
	for name, c := range map[string]struct {
		renewed time.Time
		holder  string
		isValid bool
	}{
		"now":                    {testTime, "someone", true},
		"expired":                {testTime.Add(-2 * time.Hour), "someone", false},
		"of a faster clock":      {testTime.Add(time.Minute), "someone", true},
		"of the future":          {testTime.Add(time.Hour), "someone", false},
		"of the year 9999":       {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), "someone", false},
		"without a holder":       {testTime, "", false},
		"before the common time": {time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), "someone", false},
	} {
		t.Run(name, func(t *testing.T) {
			lease := builder.NodeLease("medik8s-leases", "n", c.holder, c.renewed)
			if got := NewLease(lease, testTime); got.Valid != c.isValid {
				t.Errorf("got %+v", got)
			}
			tracker := compute(t, &Objects{Nodes: []*corev1.Node{readyNode("n")}, Leases: []*coordinationv1.Lease{lease}})
			if cell, _ := tracker.Cells.Get("n"); (cell.State == Disrupted) != c.isValid {
				t.Errorf("got %+v", cell)
			}
		})
	}
}

// TestCell_OtherMachine: a tenant's Machine that names a Node does not make the Node unhealthy: the Node names its own Machine.
func TestCell_OtherMachine(t *testing.T) {
	node := readyNode("n")
	node.Annotations = map[string]string{plan.AnnotationMachine: "machines/m"}
	objects := &Objects{Nodes: []*corev1.Node{node}, Machines: []*machinev1beta1.Machine{builder.Machine("machines", "m", builder.WithNode("n"))}}
	for _, namespace := range []string{"a", "z"} {
		forged := builder.Machine(namespace, "m", builder.WithNode("n"))
		forged.Status.Phase = new(machinev1beta1.PhaseFailed)
		objects.Machines = append(objects.Machines, forged)
	}
	if cell, _ := compute(t, objects).Cells.Get("n"); cell.Machine != "machines/m" || cell.State == Unhealthy || cell.State == Blocked {
		t.Errorf("got %+v", cell)
	}
}
