package main

import (
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// bareWrites returns the writes of some kind for as many Machines as Drover creates and deletes.
func (m *machineBench) bareWrites(of func(*machinev1beta1.Machine, *corev1.Node) []write) *floor {
	bare := &floor{}
	for i := range m.machines {
		name := fmt.Sprintf("floor-%d", i)
		machine := harness.NewMachine(name, func(machine *machinev1beta1.Machine) {
			machine.Finalizers, machine.Labels = []string{machinev1beta1.MachineFinalizer}, map[string]string{cluster.MachineSetLabel: "floor"}
			machine.Spec.Labels = map[string]string{"example.com/team": "blue"}
		})
		node := builder.Node(name, builder.WithNodeLabels(map[string]string{corev1.LabelHostname: name}), builder.WithProviderID("floor://"+name),
			builder.WithReady(corev1.ConditionTrue))
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}
		bare.items = append(bare.items, of(machine, node))
	}
	return bare
}

var annotation = []byte(`{"metadata":{"annotations":{"floor.example.com/write":"1"}}}`)

// creation returns the six writes that Drover sends for a Machine that is created.
func creation(machine *machinev1beta1.Machine, node *corev1.Node) []write {
	status := []byte(`{"status":{"phase":"Running","addresses":[{"type":"InternalIP","address":"10.0.0.1"}],` +
		`"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	return []write{
		create(machine), create(node), patch(machine, types.MergePatchType, annotation), patchStatus(machine, status),
		patch(node, types.MergePatchType, annotation), create(event(machine)),
	}
}

// deletion returns the seven writes that Drover sends for a Machine that is deleted. The last one removes its finalizer.
func deletion(machine *machinev1beta1.Machine, node *corev1.Node) []write {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", GenerateName: "floor-"}}
	return []write{
		remove(machine), create(lease), patch(node, types.MergePatchType, annotation), create(event(machine)), create(event(machine)), remove(node),
		patch(machine, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)),
	}
}

// event returns an Event as Drover sends them.
func event(machine *machinev1beta1.Machine) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: machine.Namespace, GenerateName: machine.Name + "."},
		InvolvedObject: corev1.ObjectReference{Kind: "Machine", Namespace: machine.Namespace, Name: machine.Name},
		Reason:         "Floor", Message: "an Event as Drover sends them", Type: corev1.EventTypeNormal,
		Count: 1, FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "floor"},
	}
}
