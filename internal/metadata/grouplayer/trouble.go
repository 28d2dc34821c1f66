package grouplayer

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/status"
)

// failsAfter is how long other writers may make the writes of a Node fail until its group hears of it: a roll-out does not wait for such a Node.
const failsAfter = 2 * time.Minute

// paused returns a function that reports whether a key is left alone for now because another writer keeps changing it; nil if there is no such key.
// requeue gets the end of the first pause.
func (rc *reconciliation) paused(requeue *controller.Requeue) func(kind ownership.Kind, key string) bool {
	if !rc.contention.Any() {
		return nil
	}
	return func(kind ownership.Kind, key string) bool {
		until := rc.contention.Until(rc.entry(kind, key), rc.now)
		if until.IsZero() {
			return false
		}
		requeue.In(until.Sub(rc.now))
		return true
	}
}

// reportContention reports to the group which keys of the Node are contended. Contention pauses while Drover leaves a key alone, but it has not ended
// then.
func (rc *reconciliation) reportContention(requeue *controller.Requeue) {
	var contended ownership.Section
	if rc.contention.Any() {
		for _, kind := range ownership.Kinds {
			keys := ownership.Keys{}
			for key := range rc.declared(kind) {
				over := rc.contention.Over(rc.entry(kind, key), rc.now)
				if over.IsZero() {
					continue
				}
				keys.Add(key)
				requeue.In(over.Sub(rc.now))
			}
			contended = contended.With(kind, keys)
		}
	}
	rc.Gate.SetTrouble(rc.Node.Name, func(t *gate.Trouble) { t.Contended = contended })
}

// declared returns the keys of a kind that the group of the Node declares.
func (rc *reconciliation) declared(kind ownership.Kind) ownership.Keys {
	if rc.Group == nil {
		return nil
	}
	return ownership.KeysOf(rc.Declaration().Desired[kind])
}

// notReleased returns why the group that the Node has left does not give it back, although another group has it; empty if nothing keeps it from that.
func (rc *reconciliation) notReleased() string {
	left, why := rc.Recorded, ""
	if rc.Group == nil || left == nil || left == rc.Group || left.DeletionTimestamp != nil || rc.Gate.Releasing(left.UID).Has(rc.Node.Name) {
		return ""
	}
	blocked := meta.FindStatusCondition(left.Status.Conditions, v1alpha1.ConditionBlocked)
	switch {
	case left.Spec.Suspend:
		why = "it is suspended"
	case left.Spec.DryRun:
		why = "it is a dry run"
	case blocked != nil && blocked.Status == metav1.ConditionTrue:
		why = blocked.Message
	default:
		return ""
	}
	return fmt.Sprintf("NodeGroup %s, which it has left, does not release it: %s", left.Name, why)
}

// reportFailure has the group know that the Node cannot be written: because the API server denies it, because other writers are faster each time, or
// because another group does not release it. A Node whose turn to be written has not come again yet is still failing, unless the declaration changes.
func (rc *reconciliation) reportFailure(decision *metadataplan.GroupDecision, applied *written) {
	if applied.class == status.Stale && rc.state.failing.IsZero() {
		rc.state.failing = rc.now
	}
	failing, revision := "", ""
	switch {
	case !decision.Change.Write:
	case !rc.mayWrite(decision):
		if failing = rc.notReleased(); failing == "" && rc.hasFailed() {
			return
		}
		rc.state.failing = time.Time{}
	case applied.class == status.Denied:
		failing, revision = fmt.Sprintf("the API server denies the write: %v", applied.err), rc.declaredRevision()
	case applied.class == status.Stale && rc.now.Sub(rc.state.failing) >= failsAfter:
		failing, revision = "other writers keep changing the Node while Drover writes it", rc.declaredRevision()
	case !applied.wrote:
		return // it has not been tried, or says nothing about the Node
	}
	if rc.state.failingRevision = revision; failing == "" {
		rc.state.failing = time.Time{}
	}
	rc.Gate.SetTrouble(rc.Node.Name, func(t *gate.Trouble) { t.Failing = failing })
}

// declaredRevision identifies what the Node is to carry for its group; empty without one.
func (rc *reconciliation) declaredRevision() string {
	if rc.Group == nil {
		return ""
	}
	return rc.Declaration().Revision
}

// hasFailed reports whether the Node could not be written with the present declaration when that was last tried.
func (rc *reconciliation) hasFailed() bool {
	return rc.state.failingRevision != "" && rc.state.failingRevision == rc.declaredRevision()
}

// setHeld has the group know why guarded taints of a Node are held back; empty where they are not.
func (l *Layer) setHeld(node, why string) {
	l.Gate.SetTrouble(node, func(t *gate.Trouble) { t.Held = why })
}

// unknownFor is how long a write that has failed without an answer may still be carried out: the API server ends requests after a minute
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/, --request-timeout).
const unknownFor = time.Minute

// inFlight returns what the cache will show later of a write; nil for nothing.
func (rc *reconciliation) inFlight(applied *written) *gate.Write {
	write := &gate.Write{}
	switch {
	case applied.wrote:
		write.Version = applied.version
	case applied.class == status.Transient:
		write.Until = rc.Clock.Now().Add(unknownFor)
	default:
		return nil
	}
	for _, group := range []*members.Group{rc.Group, rc.Recorded} {
		if group != nil {
			write.Groups = append(write.Groups, group.UID)
		}
	}
	return write
}
