package nodegroup

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/status"
)

// apply adds or removes the finalizer, admits Nodes, and writes the status.
func (rc *reconciliation) apply(ctx context.Context, in *plan.Input, decision *plan.Decision, requeue *controller.Requeue) error {
	deleting := rc.group.DeletionTimestamp != nil
	hasFinalizer := slices.Contains(rc.group.Finalizers, v1alpha1.Finalizer)
	switch {
	case deleting && !hasFinalizer:
		return nil
	case deleting && decision.Released:
		return rc.setFinalizer(ctx, false)
	case !deleting && !hasFinalizer:
		// No Node gets anything before the finalizer makes sure that it can be given back. The event of this write comes next.
		return rc.setFinalizer(ctx, true)
	}
	if wait := rc.awaitGuards(in, decision); wait > 0 {
		requeue.In(wait)
	} else if err := rc.updateStatus(ctx, in, decision, requeue); err != nil {
		return err
	}
	rc.admit(in, decision)
	if !decision.Wake.IsZero() {
		requeue.In(decision.Wake.Sub(rc.now))
	}
	return nil
}

// guardsKnownAfter is how long after its start a process knows which guarded taints are held back.
const guardsKnownAfter = 5 * time.Second

// awaitGuards returns how long to keep the status that a previous process has written; zero for no time. The reconciliations of admitted Nodes find
// out again which guarded taints are held back. Meanwhile these Nodes would count as Nodes to write.
func (rc *reconciliation) awaitGuards(in *plan.Input, decision *plan.Decision) time.Duration {
	known, wait := &rc.group.Status, rc.state.begun.Add(guardsKnownAfter).Sub(rc.now)
	isPending := func(n rollout.Node) bool {
		return len(n.Metadata.Guarded) > 0 && n.Metadata.State == metadataplan.Pending
	}
	switch {
	case wait <= 0, known.Rollout == nil, known.Rollout.Revision != in.Declaration.Revision, known.ObservedGeneration != rc.group.Generation:
		return 0
	case !slices.Equal(known.OwnedKeys, decision.OwnedKeys), !slices.ContainsFunc(in.Nodes, isPending):
		return 0
	}
	return min(wait, controller.MinInterval)
}

// admit lets Drover write the Nodes that the roll-out has reached, and the Nodes that have left the group.
func (rc *reconciliation) admit(in *plan.Input, decision *plan.Decision) {
	wave := decision.Wave
	if decision.Rollout.EndTime != nil {
		wave = 0
	}
	rc.Gate.Set(rc.group.UID, gate.Admission{
		Generation: rc.group.Generation, Revision: in.Declaration.Revision, Wave: wave, Nodes: decision.Admitted, Released: decision.Releasing,
		Declarations: members.Revisions(rc.group, rc.nodes), Unfit: members.Unfit(rc.nodes),
	})
}

func (rc *reconciliation) setFinalizer(ctx context.Context, present bool) error {
	next := rc.group.DeepCopy()
	if present {
		controllerutil.AddFinalizer(next, v1alpha1.Finalizer)
	} else {
		controllerutil.RemoveFinalizer(next, v1alpha1.Finalizer)
	}
	err := rc.Writer.Patch(ctx, next, controller.GuardedPatch(rc.group.NodeGroup), FieldOwner)
	if status.Classify(err) == status.OK {
		rc.versions.Expect(string(rc.group.UID), expectations.Write{Version: next.ResourceVersion})
		if !present {
			log.FromContext(ctx).Info("released all Nodes")
		}
		return nil
	}
	return err
}

// report emits an event when a roll-out has ended or stopped.
func (rc *reconciliation) report(before, after *v1alpha1.NodeGroupStatus) {
	if after.Phase == v1alpha1.PhaseStopped && before.Phase != after.Phase {
		blocked := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionBlocked)
		rc.Recorder.Event(rc.group.NodeGroup, corev1.EventTypeWarning, EventStopped, blocked.Message)
	}
	if reason, message := newlyIdle(before, after); reason != "" && rc.group.DeletionTimestamp == nil {
		rc.Recorder.Event(rc.group.NodeGroup, corev1.EventTypeWarning, reason, message)
	}
	if hasEnded(before.Rollout, after.Rollout) {
		rc.Recorder.Eventf(rc.group.NodeGroup, corev1.EventTypeNormal, EventSynced,
			"generation %d has been rolled out; %d of %d Nodes carry what it declares", rc.group.Generation, after.Synced, after.Nodes)
	}
}

// newlyIdle returns why a group does nothing of what it declares, if its spec or that is new; empty otherwise. A group whose Nodes go later, such as
// a pool that scales to zero, is as its users want it.
func newlyIdle(before, after *v1alpha1.NodeGroupStatus) (reason, message string) {
	const kind = v1alpha1.ConditionReady
	ready, known := meta.FindStatusCondition(after.Conditions, kind), meta.FindStatusCondition(before.Conditions, kind)
	isNew := known == nil || known.Reason != ready.Reason
	switch ready.Reason {
	case plan.ReasonNoNodes:
		isNew = isNew && before.ObservedGeneration != after.ObservedGeneration
	case plan.ReasonOverlapping, plan.ReasonRefusedKeys:
	default:
		return "", ""
	}
	if !isNew {
		return "", ""
	}
	return ready.Reason, ready.Message
}

// hasEnded reports whether a roll-out that had begun has ended. A roll-out without anything to write ends when it begins.
func hasEnded(before, after *v1alpha1.RolloutStatus) bool {
	return before != nil && after != nil && before.Revision == after.Revision && before.EndTime == nil && after.EndTime != nil
}
