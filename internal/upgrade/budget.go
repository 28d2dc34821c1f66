package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// acquire acquires the lease of a node, and a place in the budget of its NodeGroup before that. waits says why the node has to wait, and for how long
// at least without an event; zero is for an event. renewal is when the lease has to be renewed.
func (rc *reconciliation) acquire(ctx context.Context, step *plan.Step) (renewal time.Duration, waits *wait, err error) {
	node := step.Node.Node
	renewal, err = rc.Leases.RenewIfHolder(ctx, node)
	switch {
	case err != nil:
		return 0, nil, err
	case renewal > 0 && step.HasBegun():
		if isReserved, err := rc.isReserved(ctx, step); err != nil || isReserved {
			return renewal, nil, err
		}
	case renewal == 0:
		held, err := rc.Leases.HeldByOther(ctx, node.Name)
		if err != nil || held != nil {
			return 0, rc.waitForLease(held), err
		}
	}
	place, err := rc.reserve(ctx, step)
	switch {
	case err != nil:
		return 0, nil, err
	case !place.Allowed:
		return renewal, &wait{place.Message, cmp.Or(place.After, renewal)}, nil
	case renewal > 0:
		return renewal, nil, nil
	}
	renewal, err = rc.Leases.Acquire(ctx, node)
	return renewal, nil, err
}

// reserve reserves a place in the budget. A node that has to wait, and has a lease because its first Job could not be created, gives that back.
func (rc *reconciliation) reserve(ctx context.Context, step *plan.Step) (disruption.Answer, error) {
	request := rc.requestFor(step.Node.Node)
	request.Begun = step.HasBegun()
	place, err := rc.Budgets.Reserve(ctx, request)
	if err == nil && !place.Allowed && !request.Begun {
		err = rc.Leases.ReleaseIfHolder(ctx, request.Node)
	}
	return place, err
}

// isReserved reports whether a node in progress has the place in the budget that its next step needs. A node may have joined its NodeGroup after its
// Jobs began: that its Machine is one of the group is known only when the Machine names it.
func (rc *reconciliation) isReserved(ctx context.Context, step *plan.Step) (bool, error) {
	if step.Release == nil {
		return true, nil
	}
	return rc.Budgets.IsReserved(ctx, rc.requestFor(step.Node.Node))
}

// wait is why a node has to wait. without an event for it, it is tried again after the delay; zero is never.
type wait struct {
	message string
	after   time.Duration
}

func (rc *reconciliation) waitForLease(held *nodelease.AlreadyHeldError) *wait {
	if held == nil {
		return nil
	}
	return &wait{held.Error(), min(max(held.Until.Sub(rc.now), time.Second), controller.RetryDenied)}
}

// block has a node wait. One that has not begun is passed over.
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
		out.requeue.In(w.after)
	}
	return out
}

// release releases the lease of a node that is not in progress, and ends its reservation.
func (rc *reconciliation) release(ctx context.Context, node *corev1.Node) error {
	if err := rc.Leases.ReleaseIfHolder(ctx, node.Name); err != nil {
		return err
	}
	return rc.Budgets.Finish(ctx, rc.requestFor(node))
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

func (rc *reconciliation) requestFor(node *corev1.Node) disruption.Request {
	return disruption.Request{Request: disruptionplan.Request{
		Node: node.Name, UID: node.UID, Capability: drover.CapabilityUpgrade, Object: "MutexRunConfig/" + rc.key.String(),
	}}
}
