package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/test/harness/budgetcheck"
)

// groupCheck holds that the budget of a NodeGroup is never exceeded, and that no Node is disrupted without a place in it.
type groupCheck struct {
	state *budgetcheck.State
	// limit and timetable are what the user of the NodeGroup has chosen.
	limit     limit
	timetable timetable
	// counts are how many Nodes a percentage was of, for as long as caches may show one of them.
	counts []nodeCount
}

// nodeCount is how many Nodes a NodeGroup had at a time, including deleted Nodes that still have a place.
type nodeCount struct {
	at    time.Time
	nodes int
}

// countsKept is for how long caches may show a Node that is gone, unless the scheduler leaves an event aside for long.
const countsKept = time.Minute

func (w *world) newGroupCheck() *groupCheck {
	state := budgetcheck.New(0)
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
	return &groupCheck{state: state}
}

// count notes how many Nodes a NodeGroup has, and returns how many it had at most lately.
func (w *world) count(check *groupCheck, pool string) (most int) {
	now, there := nodeCount{at: time.Now()}, map[types.UID]bool{}
	for _, node := range w.server.all(nodeKind) {
		if poolOf(node.GetName()) == pool {
			there[node.GetUID()] = true
		}
	}
	now.nodes = len(there)
	for _, set := range typed[*machinev1beta1.MachineSet](w.server.all(setKind)) {
		if set.Name == pool {
			now.nodes = max(now.nodes, int(*set.Spec.Replicas))
		}
	}
	check.counts = append(slices.DeleteFunc(check.counts, func(c nodeCount) bool { return now.at.Sub(c.at) > countsKept }), now)
	for _, c := range check.counts {
		most = max(most, c.nodes)
	}
	return most
}

// checkWindows holds that nothing is admitted while no disruption may begin.
func (w *world) checkWindows(check *groupCheck, before, after *v1alpha1.NodeGroup) {
	for _, r := range after.Status.Admissions {
		isOld := slices.ContainsFunc(before.Status.Admissions, func(b v1alpha1.Reservation) bool {
			return b.Node == r.Node && b.UID == r.UID && b.Object == r.Object && b.Capability == r.Capability && b.Time.Equal(&r.Time)
		})
		if !isOld && !check.timetable.isOpen(r.Time.UTC()) {
			_ = w.fault("NodeGroup %s: Node %s is admitted at %s for %s, outside of its windows: %+v", after.Name, r.Node, r.Time.UTC(), r.Object,
				check.timetable)
		}
	}
}

// checkGroups looks at each write of the pool that a NodeGroup is for, also of users.
func (w *world) checkGroups(wr *write) {
	var pool string
	switch wr.after.(type) {
	case *v1alpha1.NodeGroup:
		pool = wr.key
	case *machinev1beta1.Machine, *corev1.Node:
		pool = poolOf(wr.after.GetName())
	case *coordinationv1.Lease:
		pool = poolOf(strings.TrimPrefix(wr.after.GetName(), nodelease.Name("")))
	}
	check := w.groups[pool]
	if check == nil {
		return
	}
	before, ok1 := wr.before.(*v1alpha1.NodeGroup)
	after, ok2 := wr.after.(*v1alpha1.NodeGroup)
	if ok1 && ok2 {
		w.checkWindows(check, before, after)
	}
	check.state.Allow(check.limit.of(w.count(check, pool)))
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
	for _, group := range typed[*v1alpha1.NodeGroup](w.server.all(groupKind)) {
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
