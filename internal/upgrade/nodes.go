package upgrade

import (
	"context"
	"slices"

	"github.com/drover-io/drover/internal/upgrade/plan"
)

// applySteps does what each node needs next.
func (rc *reconciliation) applySteps(ctx context.Context, run *plan.Run, decision *plan.Decision) outcome {
	out := settled()
	if !decision.Wake.IsZero() {
		out.requeue.In(decision.Wake.Sub(rc.now))
	}
	steps := slices.Clone(decision.Steps)
	for i := range steps {
		out = out.and(rc.applyStep(ctx, run, &steps[i]))
	}
	out.Steps = steps
	return out.and(rc.reportDelays(steps))
}

// applyStep does what one node needs next, and records in the step what keeps it from that. The lease of the node is acquired first, and kept until
// the node is not in progress any more.
func (rc *reconciliation) applyStep(ctx context.Context, run *plan.Run, step *plan.Step) outcome {
	node := step.Node.Node
	if !step.InProgress() {
		if other := node.Labels[plan.LabelRun]; other != "" && other != string(rc.config.UID) {
			// All runs have one holder: the lease is the other run's.
			return settled()
		}
		return resultOf(rc.release(ctx, node))
	}
	renewal, waits, err := rc.acquire(ctx, step)
	out := resultOf(err)
	switch {
	case err != nil:
		return out
	case waits != nil:
		return waits.block(step)
	case step.Job != nil:
		out = resultOf(rc.createJob(ctx, run, step))
	case step.Release != nil && !rc.versions.Pending(ctx, node):
		out = resultOf(rc.patchNode(ctx, step.Release))
	}
	out.requeue.In(renewal)
	return out
}

// renewLeases renews the leases that the run has while it cannot continue. It acquires none: those of nodes that are done have been released.
func (rc *reconciliation) renewLeases(ctx context.Context, run *plan.Run) outcome {
	out := settled()
	for _, node := range run.LeasedNodes() {
		renewal, err := rc.Leases.RenewIfHolder(ctx, node)
		if out = out.and(resultOf(err)); err == nil && renewal > 0 {
			out.requeue.In(renewal)
		}
	}
	return out
}
