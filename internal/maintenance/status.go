package maintenance

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/maintenance/plan"
)

// updateStatus is the only writer of the status. Progress alone is written once a second at most, everything else at once. What is true only with the
// new status is reported after it.
func (rc *reconciliation) updateStatus(ctx context.Context, in *plan.Input, progress *plan.Progress) error {
	before, after := in.Object.GetStatus(), plan.Status(in, progress)
	if after.Phase != "" {
		rc.Metrics.observe(rc.group, in.Object.GetName(), in.Object.GetSpec().NodeName, after.Phase)
	}
	rc.reportBlocked(in, progress)
	rc.reportReturning(in, progress)
	if apiequality.Semantic.DeepEqual(*before, after) {
		return nil
	}
	if wait := rc.state.statusWritten.Add(statusInterval).Sub(in.Now); wait > 0 && plan.OnlyProgress(before, &after) {
		progress.Requeue.In(wait)
		return nil
	}
	changed := copyOf(in.Object)
	*changed.GetStatus() = after
	if err := rc.Writer.Status().Patch(ctx, changed, controller.GuardedPatch(in.Object), fieldOwner); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	rc.expect(changed)
	rc.state.statusWritten = in.Now
	if after.Phase != before.Phase {
		rc.reportPhase(ctx, in, &after)
	}
	if progress.Report != nil && len(progress.Report.Remaining) > 0 {
		// Programs look for this text of node-maintenance-operator whenever Pods are left.
		log.FromContext(ctx).Info("Reconciling with fixed duration", "left", len(progress.Report.Remaining), "reason", progress.Drain.Message)
	}
	return nil
}

// reportPhase emits the event of a phase that is new, and observes how long a drain took, from the cordon to its end.
func (rc *reconciliation) reportPhase(ctx context.Context, in *plan.Input, after *medik8s.NodeMaintenanceStatus) {
	switch after.Phase {
	case medik8s.PhaseSucceeded:
		rc.Recorder.Event(in.Object, corev1.EventTypeNormal, EventSucceeded, "Node maintenance was succeeded")
		if cordoned := meta.FindStatusCondition(after.Conditions, plan.ConditionCordoned); cordoned != nil && cordoned.Status == metav1.ConditionTrue {
			took := in.Now.Sub(cordoned.LastTransitionTime.Time)
			rc.Metrics.took.Observe(took.Seconds())
			log.FromContext(ctx).Info("node drained", "seconds", took.Round(time.Second).Seconds(), "pods", after.EvictionPods)
		}
	case medik8s.PhaseFailed:
		rc.Recorder.Event(in.Object, corev1.EventTypeWarning, EventFailed, "Failed a node maintenance: "+after.LastError)
		log.FromContext(ctx).Info("maintenance failed", "error", after.LastError)
	}
}

// reportBlocked emits one event when a drain is blocked: at once if it is permanently, else when it has been for a while.
func (rc *reconciliation) reportBlocked(in *plan.Input, progress *plan.Progress) {
	patience, blocked := progress.BlockedPatience()
	switch {
	case !blocked:
		rc.state.blockedSince, rc.state.reported = time.Time{}, ""
		return
	case rc.state.blockedSince.IsZero():
		rc.state.blockedSince = in.Now
	}
	if rc.state.reported == progress.Drain.Reason || rc.state.reported == plan.ReasonLate {
		return
	}
	if wait := rc.state.blockedSince.Add(patience).Sub(in.Now); patience > 0 && wait > 0 {
		progress.Requeue.In(wait)
		return
	}
	rc.state.reported = progress.Drain.Reason
	rc.Recorder.Event(in.Object, corev1.EventTypeWarning, EventBlocked, progress.Drain.Message)
}

// reportReturning emits one event about the owners whose pods return to the node, and another one when there are others.
func (rc *reconciliation) reportReturning(in *plan.Input, progress *plan.Progress) {
	if progress.Report == nil {
		return
	}
	text := progress.Report.ReturningText()
	if text != "" && text != rc.state.returning {
		rc.Recorder.Event(in.Object, corev1.EventTypeWarning, EventPodsReturn, strings.TrimPrefix(text, "; "))
	}
	rc.state.returning = text
}
