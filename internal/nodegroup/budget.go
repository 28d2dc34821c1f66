package nodegroup

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/controller/delay"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// recheckWaiting is how often requests that wait, and Nodes that have just become available, are looked at without an event: time alone changes them.
const recheckWaiting = 5 * time.Second

// observeBudget returns what the budget of the group is compared with, nil for a group without one, and has those ask again that would be allowed
// now.
func (rc *reconciliation) observeBudget(ctx context.Context, requeue *controller.Requeue) (*plan.Budget, error) {
	if rc.Budgets == nil {
		return nil, nil
	}
	if err := rc.Budgets.Wake(ctx, rc.group.Name); err != nil || rc.group.Spec.Disruption == nil {
		return nil, err
	}
	state, err := rc.Budgets.StateOf(ctx, rc.group.Name, rc.members())
	if err != nil {
		return nil, err
	}
	switch {
	case state.Waiting > 0, state.Returning:
		requeue.In(recheckWaiting)
	case len(state.Disrupted) > 0:
		requeue.In(delay.Budget)
	}
	return &plan.Budget{
		Counts: state.Counts, Waiting: state.Waiting, Explanation: state.Explanation, Disrupted: state.Disrupted,
		Window: plan.WindowOf(rc.group.NodeGroup, rc.now),
	}, nil
}

// members returns the Nodes of the group.
func (rc *reconciliation) members() (nodes []*corev1.Node) {
	for i := range rc.nodes {
		if rc.isMember(&rc.nodes[i]) {
			nodes = append(nodes, rc.nodes[i].Node)
		}
	}
	return nodes
}

func (rc *reconciliation) isMember(assignment *members.Assignment) bool {
	return assignment.Group != nil && assignment.Group.UID == rc.group.UID
}

// hasSign reports whether a Node shows that it is unavailable.
func (rc *reconciliation) hasSign(node *corev1.Node) bool {
	var taints []string
	if rc.group.Spec.Disruption != nil {
		taints = rc.group.Spec.Disruption.UnavailableTaints
	}
	return len(disruptionplan.Signs(node, taints)) > 0
}
