package simulation

import (
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/test/harness/budgetcheck"
)

// groupCheck holds that the budget of a NodeGroup is never exceeded, and that no Node is disrupted without a place in it.
type groupCheck struct{ state *budgetcheck.State }

func (w *world) newGroupCheck(limit int) *groupCheck {
	state := budgetcheck.New(limit)
	state.KnownAs(func(name string) *corev1.Node {
		if w.process == nil {
			return nil
		}
		node, ok := w.process.informers[nodeKind].all()[name].(*corev1.Node)
		if !ok {
			return nil
		}
		return node
	})
	return &groupCheck{state}
}

// checkGroups looks at each write of the pool that a NodeGroup is for, also of users.
func (w *world) checkGroups(wr *write) {
	var pool string
	switch wr.after.(type) {
	case *v1alpha1.NodeGroup:
		pool = wr.key
	case *machinev1beta1.Machine, *corev1.Node:
		pool = poolOf(wr.after.GetName())
	}
	check := w.groups[pool]
	if check == nil {
		return
	}
	if wr.kind == machineKind && wr.verb == "delete" && wr.who != "healthcheck" {
		check.state.Excuse(wr.after.GetName())
	}
	check.state.See(&budgetcheck.Event{Revision: uint64(wr.version), Object: wr.after, Gone: wr.gone}) //nolint:gosec // it is positive
	for _, fault := range check.state.Faults() {
		_ = w.fault("NodeGroup %s: %s", pool, fault)
	}
}

// unsettledGroups says what of the NodeGroups is not yet as it is to be; empty when all is.
func (w *world) unsettledGroups() string {
	for _, object := range w.server.all(maintenanceKind) {
		return "NodeMaintenance " + object.GetName() + " is there"
	}
	for _, object := range w.server.all(groupKind) {
		group, ok := object.(*v1alpha1.NodeGroup)
		if !ok {
			continue
		}
		count := int32(0)
		for _, node := range w.server.all(nodeKind) {
			if node.GetLabels()[poolLabel] == group.Name {
				count++
			}
		}
		s := &group.Status
		if s.ObservedGeneration != group.Generation || s.Nodes != count || s.Synced != count || s.Unavailable != 0 || len(s.Reservations) > 0 ||
			s.Phase != v1alpha1.PhaseIdle {
			return fmt.Sprintf("the status of NodeGroup %s with %d Nodes is %+v", group.Name, count, *s)
		}
	}
	return ""
}

// declaredByGroup is what the group of a Node declares for it.
func (w *world) declaredByGroup(node *corev1.Node) map[entry]any {
	group, ok := w.server.get(groupKind, node.Labels[poolLabel]).(*v1alpha1.NodeGroup)
	if !ok {
		return nil
	}
	return declaredIn(group.Spec.Metadata)
}
