package simulation

import (
	"fmt"
	"maps"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
)

// calmDown ends all faults, and has people take back what keeps Machines from being replaced.
func (w *world) calmDown() {
	w.history.note("the last fault is over")
	w.calm, w.cloud.healthy = true, true
	edit(w, "user", checkKind, namespace+"/health", func(check *machinev1beta1.MachineHealthCheck) { check.Spec.MaxUnhealthy = nil })
	// At rest a window would still open and close, which the status of the NodeGroup says.
	w.editGroups(true, func(group *v1alpha1.NodeGroup) {
		w.groups[group.Name].timetable = timetable{}
		timetable{}.apply(group.Spec.Disruption)
	})
	if w.process == nil {
		w.after(time.Second, w.start)
	}
}

// tidy has users delete the Machines that were taken out of their pools, and those without a controller whose instance is gone: no MachineSet
// replaces them.
func (w *world) tidy() {
	for _, object := range w.server.all(machineKind) {
		pool := w.server.get(setKind, keyFor(namespace, object.GetLabels()[poolLabel]))
		isLost := pool == nil || w.cloud.instances[object.GetUID()] == nil
		if object.GetDeletionTimestamp() == nil && metav1.GetControllerOfNoCopy(object) == nil && isLost {
			must(w.server.delete(request{who: "user"}, machineKind, keyOf(object), guards{}, nil))
		}
	}
}

// unsettled says what is not yet as it is to be; empty when all is.
func (w *world) unsettled() string {
	for _, set := range typed[*machinev1beta1.MachineSet](w.server.all(setKind)) {
		if why := w.unsettledSet(set); why != "" {
			return why
		}
	}
	for _, why := range []string{w.leftBehind(), w.unsettledGroups()} {
		if why != "" {
			return why
		}
	}
	for _, object := range w.server.all(leaseKind) {
		return "lease " + keyOf(object) + " is there"
	}
	return ""
}

// leftBehind finds what belongs to no object any more.
func (w *world) leftBehind() string {
	owned, machines := map[string]bool{}, map[types.UID]bool{}
	for _, machine := range typed[*machinev1beta1.Machine](w.server.all(machineKind)) {
		if machine.DeletionTimestamp != nil {
			return "Machine " + keyOf(machine) + " is being deleted"
		}
		machines[machine.UID] = true
		if machine.Status.NodeRef != nil {
			owned[machine.Status.NodeRef.Name] = true
		}
	}
	for _, object := range w.server.all(nodeKind) {
		if !owned[object.GetName()] {
			return "Node " + object.GetName() + " is no Machine's"
		}
	}
	for _, i := range w.cloud.sorted() {
		if !machines[i.machine] {
			return "instance " + i.id + " is no Machine's"
		}
	}
	return ""
}

func (w *world) unsettledSet(set *machinev1beta1.MachineSet) string {
	view := viewOf(set)
	want, got := *set.Spec.Replicas, set.Status
	if have := w.replicas(view); have != view.replicas {
		return fmt.Sprintf("MachineSet %s has %d Machines, not %d", set.Name, have, view.replicas)
	}
	if got.Replicas != want || got.ReadyReplicas != want || got.AvailableReplicas != want || got.ObservedGeneration != set.Generation {
		return fmt.Sprintf("the status of MachineSet %s is %+v", set.Name, got)
	}
	if reached, exists := set.Annotations[machineapi.ReachedReplicasAnnotation]; exists {
		return fmt.Sprintf("MachineSet %s owes nothing and still has the record of %s replicas", set.Name, reached)
	}
	for _, machine := range typed[*machinev1beta1.Machine](w.server.all(machineKind)) {
		if !view.counts(machine) {
			continue
		}
		if why := w.unsettledMachine(set, machine); why != "" {
			return fmt.Sprintf("Machine %s: %s", machine.Name, why)
		}
	}
	return ""
}

func (w *world) unsettledMachine(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) string {
	i := w.cloud.instances[machine.UID]
	switch {
	case machine.Status.Phase == nil || *machine.Status.Phase != machinev1beta1.PhaseRunning:
		return fmt.Sprintf("its phase is %v", machine.Status.Phase)
	case i == nil:
		return "it has no instance"
	case machine.Spec.ProviderID == nil || *machine.Spec.ProviderID != i.id:
		return "its providerID is not " + i.id
	}
	node := w.node(i)
	ref := machine.Status.NodeRef
	switch {
	case node == nil:
		return "it has no Node"
	case ref == nil || ref.Name != node.Name || ref.UID != node.UID:
		return fmt.Sprintf("its nodeRef is %v, the Node's UID is %s", ref, node.UID)
	case node.Status.Conditions[0].Status != corev1.ConditionTrue:
		return "its Node is not Ready"
	case node.Spec.Unschedulable:
		return "its Node is cordoned"
	}
	return w.undeclared(set, node)
}

// undeclared says what the pool declares and the Node does not have, or the other way round.
func (w *world) undeclared(set *machinev1beta1.MachineSet, node *corev1.Node) string {
	want, have := declaredBy(set), entries(node)
	maps.Copy(want, w.declaredByGroup(node))
	for e, value := range want {
		if !apiequality.Semantic.DeepEqual(have[e], value) {
			return fmt.Sprintf("%s %q of its Node is %v, declared is %v", e.kind, e.key, have[e], value)
		}
	}
	for e := range have {
		if _, declared := want[e]; w.declared[e] && !declared {
			return fmt.Sprintf("%s %q of its Node is declared no more", e.kind, e.key)
		}
	}
	return ""
}
