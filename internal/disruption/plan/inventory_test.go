package plan

import (
	"encoding/json"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
)

// TestInventory_NodeIsGone: the event of a Node that is gone may come before the Machine is put again.
func TestInventory_NodeIsGone(t *testing.T) {
	nodes := map[string]*corev1.Node{"n0": newNode("n0")}
	inventory := NewInventory(func(name string) *corev1.Node { return nodes[name] })
	set := builder.MachineSet("machines", "set", 1)
	inventory.PutSet(set)
	inventory.Put(builder.Machine("machines", "m0", builder.WithOwner(set), builder.WithNode("n0"), func(machine *machinev1beta1.Machine) {
		machine.Annotations = map[string]string{machineapi.CreatedForAnnotation: string(machineapi.CreatedForDeleted)}
	}))
	delete(nodes, "n0")
	got := inventory.Machines(now, func(*machinev1beta1.MachineSet) bool { return true }, func(string, types.UID, bool) bool { return true })
	if len(got.Sets) != 1 || len(got.Sets[0].New) != 1 || !got.Sets[0].New[0].ReadySince.IsZero() {
		t.Errorf("%+v", got.Sets)
	}
}

// TestInventory_RequestedInTheYear10000: an author of Machines writes when remediation was requested. RFC 3339 has no later year than 9999, also in
// UTC: the API server rejects a status with one.
func TestInventory_RequestedInTheYear10000(t *testing.T) {
	inventory := NewInventory(func(string) *corev1.Node { return nil })
	set := builder.MachineSet("machines", "set", 1)
	inventory.PutSet(set)
	for _, requested := range []string{"9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59Z", "2026-11-23T12:00:00+01:00", "soon", ""} {
		inventory.Put(builder.Machine("machines", "m0", builder.WithOwner(set), func(machine *machinev1beta1.Machine) {
			machine.CreationTimestamp = metav1.NewTime(now.Add(-24 * time.Hour))
			machine.Annotations = map[string]string{machineapi.ExternalAnnotation: "", machineapi.RequestedAnnotation: requested}
		}))
		got := inventory.Machines(now, func(*machinev1beta1.MachineSet) bool { return true }, func(string, types.UID, bool) bool { return true })
		f := newFixture(1)
		f.AddMachines(&got, Pace{Deadline: time.Hour})
		status := v1alpha1.NodeGroupStatus{Reservations: Report(f.Disrupted)}
		text, err := json.Marshal(status)
		if err == nil {
			err = json.Unmarshal(text, &status)
		}
		if err != nil || len(status.Reservations) != 1 {
			t.Errorf("requested %q: %s: %v", requested, text, err)
		}
	}
}

// TestInventory_Example: the example of package disruption.
func TestInventory_Example(t *testing.T) {
	nodes := map[string]*corev1.Node{"a": newNode("a"), "b": newNode("b")}
	inventory := NewInventory(func(name string) *corev1.Node { return nodes[name] })
	set := builder.MachineSet("machines", "set", 5, func(set *machinev1beta1.MachineSet) { set.Status.Replicas = 5 })
	inventory.PutSet(set)
	for name, made := range map[string]string{"a": "", "b": "", "d": "deleted/d", "e": "growth"} {
		inventory.Put(builder.Machine("machines", name, builder.WithOwner(set), func(machine *machinev1beta1.Machine) {
			machine.CreationTimestamp = metav1.NewTime(now)
			if nodes[name] != nil {
				builder.WithNode(name)(machine)
			} else {
				machine.Annotations = map[string]string{machineapi.CreatedForAnnotation: made}
			}
		}))
	}
	got := inventory.Machines(now, func(*machinev1beta1.MachineSet) bool { return true }, func(string, types.UID, bool) bool { return true })
	if len(got.Sets) != 1 || got.Sets[0].Wanted != 4 || got.Sets[0].Nodes != 2 || got.Sets[0].NotCreated != 1 || len(got.Sets[0].New) != 1 {
		t.Fatalf("%+v", got.Sets)
	}
	f := newFixture(2)
	f.AddMachines(&got, Pace{Deadline: time.Hour})
	if tally := newTally(&f.Input); tally.Expected != 4 || tally.Unavailable != 2 || tally.inFlight[remediation] != 2 {
		t.Errorf("%+v, in flight %v", tally.Counts, tally.inFlight)
	}
}
