package upgrade

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// acquire asks for the permission to disrupt a node, and acquires or renews its lease. A node that has begun goes on whatever the budget says, unless
// it is about to be upgraded in a NodeGroup that it has joined since: that its Machine is one of the group is known only when the Machine names it.
// waits says why the node has to wait, and for how long at least without an event. bounded is the context of the step's write.
func (rc *reconciliation) acquire(
	ctx context.Context, step *plan.Step,
) (permit disruption.Permit, bounded context.Context, waits *wait, err error) {
	request := rc.requestFor(step.Node.Node)
	request.Begun, request.Kept = step.HasBegun(), step.HasBegun()
	if request.Begun && step.Release != nil {
		if request.Begun, err = rc.Budgets.HasPlace(ctx, request); err != nil {
			return permit, ctx, nil, err
		}
	}
	permit, bounded, err = rc.Budgets.Begin(ctx, request)
	if err == nil && !permit.Allowed {
		waits = &wait{permit.Message, permit.After}
	}
	return permit, bounded, waits, err
}

// wait is why a node has to wait. without an event for it, it is tried again after the delay; zero is never.
type wait struct {
	message string
	after   time.Duration
}

// block makes a node wait. A node that has not begun is passed over.
func (w *wait) block(step *plan.Step) outcome {
	switch {
	case !step.HasBegun():
		step.PassOver(w.message)
	case step.Release != nil:
		step.Status.Phase = v1alpha1.NodeRunningJobs
	}
	step.Status.Message, step.Job, step.Release = w.message, nil, nil
	out := settled()
	if w.after > 0 {
		out.Requeue.In(w.after)
	}
	return out
}

// release releases the lease of a node that is not in progress.
func (rc *reconciliation) release(ctx context.Context, node *corev1.Node) error {
	return rc.Budgets.End(ctx, rc.requestFor(node))
}

// groupOf returns the name of the NodeGroup of a node; empty for none.
func (rc *reconciliation) groupOf(ctx context.Context, node *corev1.Node) (string, error) {
	if rc.Budgets == nil {
		return "", nil
	}
	name, err := rc.Budgets.Membership.GroupOf(ctx, node.Name)
	if err != nil {
		return "", fmt.Errorf("finding the NodeGroup of node %s: %w", node.Name, err)
	}
	return name, nil
}

func (rc *reconciliation) requestFor(node *corev1.Node) *disruption.Request {
	return &disruption.Request{
		Request: disruptionplan.Request{
			Node: node.Name, UID: node.UID, Capability: drover.CapabilityUpgrade,
			Object: "MutexRunConfig/" + rc.key.String(), ObjectUID: rc.config.UID,
		},
		Target: node, Leases: rc.Leases,
	}
}
