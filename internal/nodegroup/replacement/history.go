package replacement

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodegroup/history"
	"github.com/drover-io/drover/internal/status"
)

// defaultRevisions is how many earlier templates are kept of a group that was created before the field had a default.
const defaultRevisions = 5

// historyState is what is known of the histories of MachineSets. It is lost with the process; then they are read again, and are written only if they
// lack something.
type historyState struct {
	// generations are those whose templates are kept already.
	generations map[types.UID]int64
	// retry is when to try again after a failure, and problem what the last event has reported.
	retry   time.Time
	problem string
}

// keepTemplates keeps the templates of the MachineSets for kubectl drover rollout undo, before Machines are replaced. A failure does not hold up the
// replacement.
func (rc *reconciliation) keepTemplates(ctx context.Context, requeue *controller.Requeue) {
	spec, state := &rc.group.Spec, &rc.state.history
	switch {
	case rc.History == nil, !replaces(rc.group.NodeGroup), spec.Suspend, spec.DryRun, rc.group.DeletionTimestamp != nil:
		return
	case rc.now.Before(state.retry):
		requeue.In(state.retry.Sub(rc.now))
		return
	}
	for i := range rc.sets {
		if set := &rc.sets[i]; state.generations[set.UID] != set.Generation {
			rc.keepTemplateOf(ctx, set, requeue)
		}
	}
}

// keepTemplateOf keeps the template of one MachineSet.
func (rc *reconciliation) keepTemplateOf(ctx context.Context, set *machineSet, requeue *controller.Requeue) {
	state := &rc.state.history
	problem, err := rc.keepRevision(ctx, set)
	switch status.Classify(err) {
	case status.OK:
		state.generations[set.UID] = set.Generation
	case status.Denied, status.Gone:
		// Without Drover's namespace it is Gone.
		problem, state.retry = err.Error(), rc.now.Add(controller.RetryDenied)
	default:
		log.FromContext(ctx).Info("cannot keep a template yet; trying again", "machineset", set.Name, "error", err.Error())
		state.retry = rc.now.Add(controller.CatchUp)
	}
	if err != nil {
		requeue.In(state.retry.Sub(rc.now))
	}
	if problem != "" && problem != state.problem {
		rc.Recorder.Eventf(rc.group.NodeGroup, corev1.EventTypeWarning, EventHistoryNotKept,
			"the template of MachineSet %s is not kept for kubectl drover rollout undo: %s", set.Name, problem)
	}
	state.problem = problem
}

// keepRevision makes the template of a MachineSet the last one of its history.
func (rc *reconciliation) keepRevision(ctx context.Context, set *machineSet) (notKept string, err error) {
	data, err := history.MachineSetData(set.MachineSet)
	if err != nil {
		return "", err
	}
	limit := defaultRevisions
	if rc.group.Spec.RevisionHistoryLimit != nil {
		limit = int(*rc.group.Spec.RevisionHistoryLimit)
	}
	subject := history.OfMachineSet(rc.group.NodeGroup, set.Namespace, set.Name)
	return rc.History.Keep(ctx, subject, data, set.Annotations[history.AnnotationCause], limit)
}
