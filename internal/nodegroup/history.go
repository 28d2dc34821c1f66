package nodegroup

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodegroup/history"
	"github.com/drover-io/drover/internal/status"
)

// defaultRevisions is how many earlier revisions are kept of a group that was created before the field had a default.
const defaultRevisions = 5

// historyState is what is known of a group's history. It is lost with the process; then the history is read again, and is written only if it lacks
// something.
type historyState struct {
	// generation is the one whose metadata is kept already.
	generation int64
	// retry is when to try again after a failure, and problem what the last event has reported.
	retry   time.Time
	problem string
}

// keepHistory keeps what the group declares for kubectl drover rollout undo. What is not rolled out is not kept: edits of a group that is suspended
// do not drive out the revisions that Nodes have carried. A failure does not hold up the roll-out.
func (rc *reconciliation) keepHistory(ctx context.Context, requeue *controller.Requeue) {
	spec, state := &rc.group.Spec, &rc.state.history
	switch {
	case rc.History == nil, spec.Suspend, spec.DryRun, rc.group.DeletionTimestamp != nil, state.generation == rc.group.Generation:
		return
	case rc.now.Before(state.retry):
		requeue.In(state.retry.Sub(rc.now))
		return
	}
	problem, err := rc.keepRevision(ctx)
	switch status.Classify(err) {
	case status.OK:
		state.generation = rc.group.Generation
	case status.Denied, status.Gone:
		// Without Drover's namespace it is Gone.
		problem, state.retry = err.Error(), rc.now.Add(controller.RetryDenied)
	default:
		log.FromContext(ctx).Info("cannot keep the history yet; trying again", "error", err.Error())
		state.retry = rc.now.Add(controller.CatchUp)
	}
	if err != nil {
		requeue.In(state.retry.Sub(rc.now))
	}
	if problem != "" && problem != state.problem {
		rc.Recorder.Eventf(rc.group.NodeGroup, corev1.EventTypeWarning, EventHistoryNotKept,
			"spec.metadata of generation %d is not kept for kubectl drover rollout undo: %s", rc.group.Generation, problem)
	}
	state.problem = problem
}

func (rc *reconciliation) keepRevision(ctx context.Context) (notKept string, err error) {
	data, err := history.GroupData(rc.group.NodeGroup)
	if err != nil {
		return "", err
	}
	limit := defaultRevisions
	if rc.group.Spec.RevisionHistoryLimit != nil {
		limit = int(*rc.group.Spec.RevisionHistoryLimit)
	}
	return rc.History.Keep(ctx, history.OfGroup(rc.group.NodeGroup), data, rc.group.Annotations[history.AnnotationCause], limit)
}
