package replacement

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodegroup/history"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/status"
)

// defaultRevisions is how many earlier templates are kept of a group that was created before the field had a default.
const defaultRevisions = 5

// historyState is what is known of the histories of MachineSets. It is lost with the process; then they are read again, and are written only if they
// lack something.
type historyState struct {
	// kept is what has been kept already of each MachineSet.
	kept map[types.UID]keptTemplate
	// pruned reports that there are no revisions of MachineSets that are gone.
	pruned bool
	// retry is when to try again after a failure, and problem what the last event has reported.
	retry   time.Time
	problem string
}

// keptTemplate is a template that is kept, and how many earlier ones are beside it.
type keptTemplate struct {
	generation int64
	limit      int
}

// keepTemplates keeps the templates of the MachineSets for kubectl drover rollout undo, before Machines are replaced. A failure does not hold up the
// replacement.
func (rc *reconciliation) keepTemplates(ctx context.Context, requeue *controller.Requeue) {
	spec, state := &rc.Spec, &rc.State.history
	switch {
	case rc.History == nil, !plan.Replaces(rc.NodeGroup), spec.Suspend, spec.DryRun, rc.DeletionTimestamp != nil:
		return
	case rc.Now.Before(state.retry):
		requeue.In(state.retry.Sub(rc.Now))
		return
	}
	limit := defaultRevisions
	if spec.RevisionHistoryLimit != nil {
		limit = int(*spec.RevisionHistoryLimit)
	}
	for i := range rc.sets {
		set := &rc.sets[i]
		if want := (keptTemplate{set.Generation, limit}); state.kept[set.UID] != want {
			rc.keepTemplateOf(ctx, set, want, requeue)
		}
	}
	rc.pruneHistory(ctx, requeue)
}

// pruneHistory deletes the revisions of MachineSets that are gone: after a start, and when a MachineSet has gone. Without any MachineSet it deletes
// none, since Drover may not watch their namespace any more.
func (rc *reconciliation) pruneHistory(ctx context.Context, requeue *controller.Requeue) {
	state := &rc.State.history
	for uid := range state.kept {
		if _, exists := rc.existing[uid]; !exists {
			delete(state.kept, uid)
			state.pruned = false
		}
	}
	if state.pruned || len(rc.existing) == 0 || state.retry.After(rc.Now) {
		return
	}
	err := rc.History.Prune(ctx, rc.NodeGroup, rc.Spec.Nodes.MachineSets.Namespace, slices.Collect(maps.Values(rc.existing)))
	if state.pruned = err == nil; state.pruned {
		return
	}
	log.FromContext(ctx).Info("cannot delete revisions of MachineSets that are gone yet; trying again", "error", err.Error())
	state.retry = rc.Now.Add(retryAfter(err))
	requeue.In(state.retry.Sub(rc.Now))
}

// retryAfter returns how long after an error the history is written again.
func retryAfter(err error) time.Duration {
	switch status.Classify(err) {
	case status.Denied, status.Gone:
		return controller.RetryDenied
	}
	return controller.CatchUp
}

// keepTemplateOf keeps the template of one MachineSet.
func (rc *reconciliation) keepTemplateOf(ctx context.Context, set *machineSet, want keptTemplate, requeue *controller.Requeue) {
	state := &rc.State.history
	problem, err := rc.keepRevision(ctx, set, want.limit)
	switch status.Classify(err) {
	case status.OK:
		state.kept[set.UID] = want
	case status.Denied, status.Gone:
		// Without Drover's namespace it is Gone.
		problem, state.retry = err.Error(), rc.Now.Add(retryAfter(err))
	default:
		log.FromContext(ctx).Info("cannot keep a template yet; trying again", "machineset", set.Name, "error", err.Error())
		state.retry = rc.Now.Add(retryAfter(err))
	}
	if err != nil {
		requeue.In(state.retry.Sub(rc.Now))
	}
	if problem != "" && problem != state.problem {
		rc.Recorder.Eventf(rc.NodeGroup, corev1.EventTypeWarning, EventHistoryNotKept,
			"the template of MachineSet %s is not kept for kubectl drover rollout undo: %s", set.Name, problem)
	}
	state.problem = problem
}

// keepRevision makes the template of a MachineSet the last one of its history.
func (rc *reconciliation) keepRevision(ctx context.Context, set *machineSet, limit int) (notKept string, err error) {
	data, err := history.MachineSetData(set.MachineSet)
	if err != nil {
		return "", err
	}
	subject := history.OfMachineSet(rc.NodeGroup, set.Namespace, set.Name)
	return rc.History.Keep(ctx, subject, data, set.Annotations[history.AnnotationCause], limit)
}
