package maintenance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

// writeStatus is the only writer of the status. Progress alone is written once a second at most; the rest at once.
func (p *pass) writeStatus(ctx context.Context) error {
	before := p.status
	after := p.found.status(&before, p.GetGeneration(), p.now)
	if p.found.paused {
		after = pausedStatus(&before, p.GetGeneration(), p.now)
	}
	if after.Phase != "" {
		p.Metrics.observe(p.flavour, p.GetName(), after.Phase)
	}
	p.tellBlocked()
	if apiequality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if wait := p.state.statusWritten.Add(statusEvery).Sub(p.now); wait > 0 && sameBarProgress(&before, &after) {
		p.requeue.In(wait)
		return nil
	}
	changed := p.with(after)
	patch := client.MergeFromWithOptions(p.Object, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Status().Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	p.wrote(changed)
	p.state.statusWritten = p.now
	p.tell(ctx, &before, &after)
	return nil
}

// sameBarProgress tells whether two statuses differ in counts, names and texts only.
func sameBarProgress(before, after *medik8s.NodeMaintenanceStatus) bool {
	if before.Phase != after.Phase || before.ObservedGeneration != after.ObservedGeneration || (before.LastError == "") != (after.LastError == "") {
		return false
	}
	return maps.Equal(reasons(before), reasons(after))
}

func reasons(s *medik8s.NodeMaintenanceStatus) map[string]string {
	out := map[string]string{}
	for _, condition := range s.Conditions {
		out[condition.Type] = string(condition.Status) + condition.Reason
	}
	return out
}

// tell sends the events and log lines for what the status now says for the first time.
func (p *pass) tell(ctx context.Context, before, after *medik8s.NodeMaintenanceStatus) {
	logger := log.FromContext(ctx)
	if after.Phase != before.Phase {
		switch after.Phase {
		case medik8s.PhaseSucceeded:
			p.Recorder.Event(p.Object, corev1.EventTypeNormal, EventSucceeded, "Node maintenance was succeeded")
			p.drainTook(ctx, after)
		case medik8s.PhaseFailed:
			p.Recorder.Event(p.Object, corev1.EventTypeWarning, EventFailed, "Failed a node maintenance")
			logger.Info("maintenance failed", "error", after.LastError)
		}
	}
	if p.found.report != nil && len(p.found.report.Left) > 0 {
		logger.Info(marker, "left", len(p.found.report.Left), "why", p.found.drain.message)
	}
}

// tellBlocked sends one event when a drain is blocked: at once when that does not pass by itself, after a while when it may.
func (p *pass) tellBlocked() {
	found := p.found.drain.reason
	if found != reasonBlocked && found != reasonLate {
		p.state.blocked, p.state.reported = time.Time{}, ""
		return
	}
	if p.state.blocked.IsZero() {
		p.state.blocked = p.now
	}
	if p.state.reported == found || p.state.reported == reasonLate {
		return
	}
	patience := blockedPatience
	if found == reasonLate || slices.ContainsFunc(p.found.report.Left, func(pod drain.Left) bool { return stuck[pod.Reason] }) {
		patience = 0
	}
	if wait := p.state.blocked.Add(patience).Sub(p.now); wait > 0 {
		p.requeue.In(wait)
		return
	}
	p.state.reported = found
	p.Recorder.Event(p.Object, corev1.EventTypeWarning, EventBlocked, p.found.drain.message)
}

// drainTook notes how long it took from the cordon to the end of the drain.
func (p *pass) drainTook(ctx context.Context, after *medik8s.NodeMaintenanceStatus) {
	cordoned := meta.FindStatusCondition(after.Conditions, ConditionCordoned)
	if cordoned == nil || cordoned.Status != metav1.ConditionTrue {
		return
	}
	took := p.now.Sub(cordoned.LastTransitionTime.Time)
	p.Metrics.took.Observe(took.Seconds())
	log.FromContext(ctx).Info("node drained", "seconds", took.Round(time.Second).Seconds(), "pods", after.EvictionPods)
}

// tellCordon says what was done to the node; what had to be done again is a warning.
func (p *pass) tellCordon(ctx context.Context, change drain.Change, again bool) {
	log.FromContext(ctx).Info("node cordoned", "parts", change.Parts, "again", again)
	if again && len(change.Parts) > 0 {
		p.Recorder.Eventf(p.Object, corev1.EventTypeWarning, EventCordonRestored,
			"somebody else has undone what the maintenance needs; put back: %s", strings.Join(change.Parts, ", "))
	}
}
