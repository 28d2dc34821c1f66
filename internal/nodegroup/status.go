package nodegroup

import (
	"context"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/status"
)

// updateStatus writes the status, except for the admissions, which belong to those who are admitted.
func (rc *reconciliation) updateStatus(ctx context.Context, in *plan.Input, decision *plan.Decision, requeue *controller.Requeue) error {
	next := rc.group.DeepCopy()
	rc.setStatus(&next.Status, in, decision)
	rc.Metrics.observe(rc.key.Name, &next.Status, in.Budget)
	if apiequality.Semantic.DeepEqual(next.Status, rc.group.Status) {
		return nil
	}
	if wait := rc.awaitNextWrite(&next.Status, in.Replacement.Replacing); wait > 0 {
		controller.KeepBackoff(ctx) // the last write may have failed
		requeue.In(wait)
		return nil
	}
	// Also if it fails: a user who keeps changing the spec must not have the group reconciled without a pause.
	rc.state.written = rc.Clock.Now()
	return rc.Budgets.UpdateStatus(ctx, rc.group.NodeGroup, func(ctx context.Context, latest *v1alpha1.NodeGroup) (*v1alpha1.NodeGroup, error) {
		next := latest.DeepCopy()
		rc.setStatus(&next.Status, in, decision)
		err := rc.Writer.Status().Patch(ctx, next, controller.GuardedPatch(latest), FieldOwner)
		switch status.Classify(err) {
		case status.OK:
			rc.state.own = next.Status.DeepCopy()
		case status.Transient:
			rc.state.own = nil // it may have been written
			return nil, err
		default:
			return nil, err
		}
		rc.versions.Expect(string(latest.UID), expectations.Write{Version: next.ResourceVersion})
		rc.report(&latest.Status, &next.Status)
		return next, nil
	})
}

// awaitNextWrite returns how long the status stays as it is, zero for no time. While Machines are replaced, counts and messages change many times a
// second. What the next reconciliation depends on is written at once.
func (rc *reconciliation) awaitNextWrite(next *v1alpha1.NodeGroupStatus, replacing bool) time.Duration {
	before, wait := &rc.group.Status, rc.state.written.Add(controller.MinInterval).Sub(rc.now)
	switch {
	case !replacing, wait <= 0, wait > controller.MinInterval: // the clock was set back
		return 0
	case before.ObservedGeneration != next.ObservedGeneration, !slices.Equal(before.OwnedKeys, next.OwnedKeys), !sameRollout(before, next):
		return 0
	}
	return wait
}

// sameRollout reports whether the roll-outs of two statuses are equal, whatever Nodes they wait for.
func sameRollout(a, b *v1alpha1.NodeGroupStatus) bool {
	if a.Rollout == nil || b.Rollout == nil {
		return a.Rollout == b.Rollout
	}
	before, after := *a.Rollout, *b.Rollout
	before.WaitingFor, after.WaitingFor = nil, nil
	return apiequality.Semantic.DeepEqual(before, after)
}

func (rc *reconciliation) setStatus(after *v1alpha1.NodeGroupStatus, in *plan.Input, decision *plan.Decision) {
	after.ObservedGeneration = rc.group.Generation
	c := decision.Counts
	after.Nodes, after.Synced, after.Pending, after.Conflicts, after.Refused, after.Held = c.Nodes, c.Synced, c.Pending, c.Conflicts, c.Refused, c.Held
	after.Unavailable, after.Budget = rc.unavailable(in)
	after.Reservations = nil
	if in.Budget != nil {
		after.Reservations = in.Budget.Disrupted
	}
	after.Window = in.WindowStatus()
	after.Phase, after.Message = decision.Phase, decision.Message
	after.Rollout, after.OwnedKeys = decision.Rollout, decision.OwnedKeys
	after.DefaultRollout = rc.Finder.DefaultRollout()
	after.Outdated = in.Replacement.Outdated
	for _, kind := range plan.AbnormalTypes {
		if !slices.ContainsFunc(decision.Abnormal, func(c plan.Condition) bool { return c.Type == kind }) {
			meta.RemoveStatusCondition(&after.Conditions, kind)
		}
	}
	for _, condition := range slices.Concat(decision.Conditions, decision.Abnormal) {
		meta.SetStatusCondition(&after.Conditions, metav1.Condition{
			Type: condition.Type, Status: condition.Status, Reason: condition.Reason, Message: condition.Message,
			ObservedGeneration: rc.group.Generation, LastTransitionTime: metav1.Time{Time: rc.now},
		})
	}
}

// unavailable returns how many Nodes count as unavailable, and the budget. The budget is nil for a group without one; leases do not count in such a
// group.
func (rc *reconciliation) unavailable(in *plan.Input) (unavailable int32, budget *int32) {
	if in.Budget != nil {
		return int32(in.Budget.Unavailable), new(int32(in.Budget.Limit)) //nolint:gosec // a cluster has fewer Nodes
	}
	for i := range rc.nodes {
		if rc.isMember(&rc.nodes[i]) && rc.hasSign(rc.nodes[i].Node) {
			unavailable++
		}
	}
	return unavailable, nil
}
