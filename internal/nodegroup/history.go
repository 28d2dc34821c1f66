package nodegroup

import (
	"context"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/members"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/rollout/history"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/undecodable"
)

// defaultRevisions is how many earlier revisions are kept of a group that was created before the field had a default.
const defaultRevisions = 5

// historyState is what is known of the histories of a group and its MachineSets. It is lost with the process; then the histories are read again, and
// are written only if they lack something.
type historyState struct {
	// revisions are by what they are of.
	revisions map[types.UID]*revisionState
	// pruned reports that there are no revisions of MachineSets that are gone, and prune is when to try again after a failure.
	pruned bool
	prune  time.Time
}

// revisionState is what is known of the last revision of an object.
type revisionState struct {
	// generation is the generation that is kept already, and limit how many earlier revisions are kept beside it.
	generation int64
	limit      int
	// retry is when to try again after a failure, and problem what the last event has reported.
	retry   time.Time
	problem string
}

// keepHistory keeps what the group declares, and the templates of its MachineSets, for kubectl drover rollout undo, before they are rolled out. What
// is not rolled out is not kept: edits of a group that is suspended do not drive out the revisions that Nodes have carried. A failure does not hold
// up the roll-out.
func (rc *reconciliation) keepHistory(ctx context.Context, requeue *controller.Requeue) {
	group := rc.group.NodeGroup
	if rc.History == nil || group.Spec.Suspend || group.Spec.DryRun || group.DeletionTimestamp != nil {
		return
	}
	rc.keepRevision(ctx, group, history.OfGroup(group), fmt.Sprintf("spec.metadata of generation %d", group.Generation), func() ([]byte, error) {
		return history.GroupData(group)
	}, requeue)
	if rc.Replacer != nil && replacementplan.Replaces(group) && group.Spec.Nodes.MachineSets != nil {
		rc.keepTemplates(ctx, requeue)
	}
}

// keepTemplates keeps the templates of the group's MachineSets.
func (rc *reconciliation) keepTemplates(ctx context.Context, requeue *controller.Requeue) {
	group := rc.group.NodeGroup
	var sets machinev1beta1.MachineSetList
	if err := rc.Cache.List(ctx, &sets, client.InNamespace(group.Spec.Nodes.MachineSets.Namespace)); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the MachineSets of a NodeGroup")
		return
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if members.OfSet(rc.groups, set) != rc.group || set.DeletionTimestamp != nil || undecodable.Check(set) != nil {
			continue
		}
		rc.keepRevision(ctx, set, history.OfMachineSet(group, set.Namespace, set.Name), "the template of MachineSet "+set.Name, func() ([]byte, error) {
			return history.MachineSetData(set)
		}, requeue)
	}
	rc.pruneHistory(ctx, sets.Items, requeue)
}

// keepRevision makes what an object declares the last revision of its history.
func (rc *reconciliation) keepRevision(
	ctx context.Context, of client.Object, subject history.Subject, what string, read func() ([]byte, error), requeue *controller.Requeue,
) {
	state, limit := rc.state.history.of(of.GetUID()), defaultRevisions
	if rc.group.Spec.RevisionHistoryLimit != nil {
		limit = int(*rc.group.Spec.RevisionHistoryLimit)
	}
	switch {
	case state.generation == of.GetGeneration() && state.limit == limit:
		return
	case rc.now.Before(state.retry):
		requeue.In(state.retry.Sub(rc.now))
		return
	}
	problem := ""
	data, err := read()
	if err == nil {
		problem, err = rc.History.Keep(ctx, subject, data, of.GetAnnotations()[history.AnnotationCause], limit)
	}
	switch status.Classify(err) {
	case status.OK:
		state.generation, state.limit = of.GetGeneration(), limit
	case status.Denied, status.Gone:
		// Without Drover's namespace it is Gone.
		problem = err.Error()
	default:
		log.FromContext(ctx).Info("cannot keep a revision yet; trying again", "of", subject.String(), "error", err.Error())
	}
	if err != nil {
		state.retry = rc.now.Add(retryAfter(err))
		requeue.In(state.retry.Sub(rc.now))
	}
	if problem != "" && problem != state.problem {
		rc.Recorder.Eventf(rc.group.NodeGroup, corev1.EventTypeWarning, EventHistoryNotKept,
			"%s is not kept for kubectl drover rollout undo: %s", what, problem)
	}
	state.problem = problem
}

// of returns what is known of the last revision of an object.
func (s *historyState) of(uid types.UID) *revisionState {
	if s.revisions == nil {
		s.revisions = map[types.UID]*revisionState{}
	}
	if s.revisions[uid] == nil {
		s.revisions[uid] = &revisionState{}
	}
	return s.revisions[uid]
}

// retryAfter returns how long after an error a history is written again.
func retryAfter(err error) time.Duration {
	switch status.Classify(err) {
	case status.Denied, status.Gone:
		return controller.RetryDenied
	}
	return controller.CatchUp
}

// pruneHistory deletes the revisions of MachineSets that are gone: after a start, and when a MachineSet has gone. Without any MachineSet it deletes
// none, since Drover may not watch their namespace any more.
func (rc *reconciliation) pruneHistory(ctx context.Context, existing []machinev1beta1.MachineSet, requeue *controller.Requeue) {
	state, exists, names := &rc.state.history, map[types.UID]bool{rc.group.UID: true}, make([]string, len(existing))
	for i := range existing {
		exists[existing[i].UID], names[i] = true, existing[i].Name
	}
	for uid := range state.revisions {
		if !exists[uid] {
			delete(state.revisions, uid)
			state.pruned = false
		}
	}
	switch {
	case state.pruned, len(existing) == 0:
		return
	case rc.now.Before(state.prune):
		requeue.In(state.prune.Sub(rc.now))
		return
	}
	err := rc.History.Prune(ctx, rc.group.NodeGroup, rc.group.Spec.Nodes.MachineSets.Namespace, names)
	if state.pruned = err == nil; state.pruned {
		return
	}
	log.FromContext(ctx).Info("cannot delete revisions of MachineSets that are gone yet; trying again", "error", err.Error())
	state.prune = rc.now.Add(retryAfter(err))
	requeue.In(state.prune.Sub(rc.now))
}
