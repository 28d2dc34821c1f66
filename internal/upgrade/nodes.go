package upgrade

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// applySteps does what each node needs next, in the order of their turns. A node that has to wait is passed over unless it has begun.
func (rc *reconciliation) applySteps(ctx context.Context, run *plan.Run, decision *plan.Decision) outcome {
	out, waiting, passedOver := settled(), groupWaits{}, map[types.UID]string{}
	nodes := decision.Apply(func(step *plan.Step) {
		asked := step.InProgress()
		out = out.and(rc.applyStep(ctx, run, step, waiting))
		if s := &step.Status; s.Phase == v1alpha1.NodePending && s.Message != "" && (asked || s.Message == step.Node.PassedOver) {
			passedOver[step.Node.UID] = s.Message
		}
	})
	rc.state.passedOver = passedOver
	if !nodes.Wake.IsZero() {
		out.Requeue.In(nodes.Wake.Sub(rc.now))
	}
	out.Nodes = nodes
	return out.and(rc.reportDelays(nodes.Steps))
}

// applyStep does what one node needs next, and records in the step what keeps it from that. The lease of the node is acquired first, and kept until
// the node is not in progress any more.
func (rc *reconciliation) applyStep(ctx context.Context, run *plan.Run, step *plan.Step, waiting groupWaits) outcome {
	node := step.Node.Node
	if !step.InProgress() {
		return resultOf(rc.releaseUnused(ctx, node))
	}
	permit, ctx, waits, err := rc.acquireInTurn(ctx, step, waiting)
	defer permit.Done()
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
	out.Requeue.In(permit.Renewal)
	return out
}

// groupWaits are why the first nodes of each NodeGroup have to wait in a reconciliation, by its name.
type groupWaits map[string][]*wait

// acquireInTurn is acquire, for no more nodes of a NodeGroup than may be in progress: those behind them wait for the same, and a group may have
// thousands. A node that is unavailable already may need no place, and what shows that may be a taint.
func (rc *reconciliation) acquireInTurn(
	ctx context.Context, step *plan.Step, waiting groupWaits,
) (permit disruption.Permit, bounded context.Context, waits *wait, err error) {
	if step.HasBegun() {
		return rc.acquire(ctx, step)
	}
	node := step.Node.Node
	group, err := rc.groupOf(ctx, node)
	if err != nil {
		return permit, ctx, nil, err
	}
	first, available := waiting[group], !step.Node.Unavailable && len(node.Spec.Taints) == 0
	if group != "" && available && len(first) >= max(int(rc.config.Spec.MaxConcurrentNodes), 1) {
		return permit, ctx, first[0], rc.releaseUnused(ctx, node)
	}
	if permit, bounded, waits, err = rc.acquire(ctx, step); waits != nil {
		waiting[group] = append(first, waits)
	}
	return permit, bounded, waits, err
}

// releaseUnused releases what a node that is not in progress may have.
func (rc *reconciliation) releaseUnused(ctx context.Context, node *corev1.Node) error {
	if other := node.Labels[plan.LabelRun]; other != "" && other != string(rc.config.UID) {
		// All runs have one holder: the lease is the other run's.
		return nil
	}
	return rc.release(ctx, node)
}

// renewLeases renews the leases that the run has while it cannot continue. It acquires none: the leases of finished nodes have been released.
func (rc *reconciliation) renewLeases(ctx context.Context, run *plan.Run) outcome {
	out := settled()
	for _, node := range run.LeasedNodes() {
		renewal, err := rc.Leases.RenewIfHolder(ctx, node)
		if out = out.and(resultOf(err)); err == nil && renewal > 0 {
			out.Requeue.In(renewal)
		}
	}
	return out
}

func (rc *reconciliation) patchNode(ctx context.Context, change *plan.NodeChange) error {
	target := nodeMetadata(change.Node)
	if err := rc.Writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, change.Patch()), fieldOwner); err != nil {
		return fmt.Errorf("patching Node %s: %w", change.Node.Name, err)
	}
	rc.expect(target)
	return nil
}

func nodeMetadata(node *corev1.Node) *metav1.PartialObjectMetadata {
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	return target
}
