package grouplayer

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/metadata/pace"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
)

// newNodeAge is how long a Node counts as new. Labels and taints that it gets only after its first Pods come too late.
const newNodeAge = 10 * time.Minute

// recheckWritten is how long after a write a Node is reconciled again whether an event has come or not: when etcd was restored from a backup, the
// cache may never show the write.
const recheckWritten = time.Minute

// prepare reports whether what was decided is due to be written: the Node's turn has come.
func (rc *reconciliation) prepare(decision *metadataplan.GroupDecision, requeue controller.Requeue, isTurn bool) (out written, due bool) {
	out = written{class: status.OK, requeue: requeue}
	if !decision.Change.Write {
		return out, false
	}
	out.postponed = true
	if !rc.mayWrite(decision) {
		return out, false
	}
	if rc.withheld || !rc.isOwned() {
		// The status names the keys before a Node gets them: without it they could not be removed again. The cache will show it. What was decided without
		// the guard is decided anew.
		out.requeue.In(controller.CatchUp)
		return out, false
	}
	if !isTurn {
		if wait := rc.options.Limiter.Reserve(rc.key, decision.Drift || rc.isNewNode(decision), rc.now); wait > 0 {
			out.requeue.In(wait)
			return out, false
		}
	}
	out.postponed = false
	return out, true
}

// finish notes what has come of a write.
func (rc *reconciliation) finish(ctx context.Context, decision *metadataplan.GroupDecision, out *written, version string, err error) {
	out.class, out.err = status.Classify(err), err
	rc.Metrics.writes.WithLabelValues(string(out.class)).Inc()
	if out.class != status.OK {
		return
	}
	out.wrote, out.version = true, version
	out.requeue.In(recheckWritten)
	log.FromContext(ctx).V(1).Info("patched", "nodegroup", rc.groupName())
	if decision.Drift && rc.recordRepair(decision.Change) {
		out.requeue.In(0)
	}
}

// mayWrite reports whether the Node's turn has come, both in its current group and in the group that it has left. A manual edit is undone at once.
func (rc *reconciliation) mayWrite(decision *metadataplan.GroupDecision) bool {
	switch left := rc.Recorded; {
	case left != nil && left != rc.Group && !rc.Gate.Releasing(left.UID).Has(rc.Node.Name):
		return false
	case rc.Group == nil:
		return true
	case rc.Group.Spec.DryRun && rc.Group.DeletionTimestamp == nil:
		return false
	}
	return decision.Drift || decision.Handover || rc.isNewNode(decision) || rc.isAdmitted() ||
		len(decision.Guarded) > 0 && rc.begun
}

// isAdmitted reports whether the roll-out has reached the Node.
func (rc *reconciliation) isAdmitted() bool {
	return rc.Gate.Admits(rc.Group.UID, rc.Declaration().Revision, rc.Node.Name)
}

// isNewNode reports whether the Node has just registered, after its group was created, and has nothing of a group yet. Such a Node does not wait
// behind a roll-out.
func (rc *reconciliation) isNewNode(decision *metadataplan.GroupDecision) bool {
	return rc.Group != nil && decision.FirstWrite && rc.now.Sub(rc.Node.CreationTimestamp.Time) < newNodeAge &&
		rc.Node.CreationTimestamp.After(rc.Group.CreationTimestamp.Time)
}

// recordRepair counts what has been put back, and reports whether one of the keys is contended now.
func (rc *reconciliation) recordRepair(change metadataplan.Change) (contended bool) {
	repaired := change.Repairs(false)
	if !repaired.Empty() {
		rc.Metrics.repairs.Inc()
	}
	for _, kind := range ownership.Kinds {
		for _, key := range repaired.Of(kind).Sorted() {
			if !rc.contention.Repaired(rc.entry(kind, key), rc.now) {
				continue
			}
			contended = true
			rc.Metrics.contention.Inc()
			rc.Recorder.Eventf(rc.Node, corev1.EventTypeWarning, EventContention,
				"another writer keeps changing %s %q, which NodeGroup %s declares; Drover leaves it alone for a while", kind, key, rc.groupName())
		}
	}
	return contended
}

func (rc *reconciliation) entry(kind ownership.Kind, key string) pace.Key {
	return pace.Key{Target: metadataplan.OnNode, Object: rc.Node.Name, Kind: kind, Key: key}
}

func (rc *reconciliation) groupName() string {
	if rc.Group == nil {
		return "(none)"
	}
	return rc.Group.Name
}

// report emits events for what is new on the Node.
func (rc *reconciliation) report(decision *metadataplan.GroupDecision, applied *written) {
	rc.reportFailure(decision, applied)
	if denied := applied.class == status.Denied; denied != rc.state.denied && !applied.postponed {
		rc.state.denied = denied
		if denied {
			rc.Recorder.Eventf(rc.Node, corev1.EventTypeWarning, EventDenied, "cannot apply the metadata of NodeGroup %s: %v", rc.groupName(), applied.err)
		}
	}
	if applied.wrote && rc.lost != "" {
		rc.Recorder.Eventf(rc.Node, corev1.EventTypeWarning, EventPodsLost,
			"the taints of NodeGroup %s are set; Kubernetes deletes %s", rc.groupName(), rc.lost)
	}
	if entries := decision.Change.RepairText(); applied.wrote && decision.Drift && entries != "" {
		rc.Recorder.Eventf(rc.Node, corev1.EventTypeNormal, EventRepaired, "undid what another writer changed: %s", entries)
	}
	problems := map[string]bool{}
	for _, problem := range decision.Problems {
		if problem.Reason != metadataplan.InConflict {
			continue
		}
		problems[problem.Message] = true
		if !rc.state.problems[problem.Message] {
			rc.Recorder.Eventf(rc.Node, corev1.EventTypeWarning, EventConflict, "%s (NodeGroup %s)", problem.Message, rc.groupName())
		}
	}
	rc.state.problems = problems
}
