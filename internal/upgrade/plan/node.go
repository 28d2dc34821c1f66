package plan

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// Step is what a node needs next.
type Step struct {
	// Node is the Node.
	Node *Node
	// Status is the node's status.
	Status v1alpha1.NodeStatus
	// Job is to be created; nil for none.
	Job *batchv1.Job
	// Release moves the node to the canary; nil if it is not to be released.
	Release *NodeChange
	// Wake is when to decide again without an event; zero is never.
	Wake time.Time
	// Delay is why a released node is not upgraded yet.
	Delay Delay
	// hasJob reports whether the node has a Job before its upgrade, of whichever rule.
	hasJob bool
}

// InProgress reports whether the node's lease is needed. It is also needed for a node that has failed after its release.
func (s *Step) InProgress() bool {
	return inProgress(s.Status.Phase) || s.Status.Phase == v1alpha1.NodeFailed && s.Status.Released != nil
}

// HasBegun reports whether the node has a Job, or has been released.
func (s *Step) HasBegun() bool {
	return s.hasJob || s.Status.Started != nil || s.Status.Released != nil
}

// PassOver makes a node that has not begun pending, with the reason.
func (s *Step) PassOver(message string) {
	*s = Step{Node: s.Node, Status: v1alpha1.NodeStatus{Name: s.Status.Name, Phase: v1alpha1.NodePending, Message: message}}
}

// step decides what one node needs next. mayStart reports whether it may be started.
func (t *turns) step(node *Node, mayStart bool) Step {
	step := Step{Node: node, Status: v1alpha1.NodeStatus{Name: node.Name, Phase: v1alpha1.NodePending}}
	release := t.releaseOf(node)
	if release != nil {
		step.Status.Released = &release.At
	}
	switch {
	case SameVersion(node.Version, t.run.Desired) && (release == nil || !isUpdating(node.Node)):
		// A node that has the version before its turn needs nothing.
		step.Status.Phase = v1alpha1.NodeDone
		t.cleanUp(node, &step)
	case release != nil && release.Version == t.run.Desired:
		t.checkUpgrade(node, release, &step)
	case release != nil:
		// The machine-config-operator is updating it to another version. It is gated again after that.
		text, delay := progressOf(node)
		step.Status.Phase, step.Delay = v1alpha1.NodeUpgrading, delay
		step.Status.Message = fmt.Sprintf("it was released for version %s; %s", release.Version, text)
	case !t.cleanUp(node, &step):
	case t.previous[node.UID] != nil:
		t.awaitPrevious(t.previous[node.UID], &step)
	case mayStart || t.started[node.UID]:
		step.hasJob = t.started[node.UID]
		t.prepare(node, &step)
	}
	return step
}

// releaseOf returns the release of a node by this run; nil for none.
func (t *turns) releaseOf(node *Node) *Release {
	if isReleased(node.Node, t.run.Config.UID, t.run.Keys) {
		return ReleaseOf(node.Node)
	}
	return nil
}

// prepare runs the Jobs before the upgrade, and releases the node when all have succeeded.
func (t *turns) prepare(node *Node, step *Step) {
	step.Status.Phase = v1alpha1.NodeRunningJobs
	if t.runJobs(node, t.run.Desired, BeforeUpgrade, step) {
		step.Status.Phase = v1alpha1.NodeReleased
		step.Release = releaseNode(node.Node, Release{Version: t.run.Desired, At: metav1.NewTime(t.run.Now.UTC().Truncate(time.Second))})
	}
}

// checkUpgrade decides about a node that was released for the desired version.
func (t *turns) checkUpgrade(node *Node, release *Release, step *Step) {
	step.Status.Phase = v1alpha1.NodeReleased
	if isUpdating(node.Node) {
		step.Status.Phase = v1alpha1.NodeUpgrading
	}
	if failure := failureOf(node); failure != "" {
		step.fail(failure)
		return
	}
	step.Status.Message, step.Delay = progressOf(node)
	if timeout := t.run.Config.Spec.NodeTimeout; t.isOverdue(timeout, release.At, step) {
		step.fail(fmt.Sprintf("it does not have version %s after %s: %s", t.run.Desired, timeout.Duration, step.Status.Message))
	}
}

func (s *Step) fail(message string) { s.Status.Phase, s.Status.Message = v1alpha1.NodeFailed, message }

// isOverdue reports whether a timeout is over; before that, it sets when to decide again. Without a timeout nothing is overdue.
func (t *turns) isOverdue(timeout *metav1.Duration, since metav1.Time, step *Step) bool {
	if timeout == nil || timeout.Duration <= 0 {
		return false
	}
	due := since.Add(bounded.Duration(timeout.Duration))
	if t.run.Now.Before(due) {
		step.Wake = due
		return false
	}
	return true
}

// cleanUp runs the clean-up Jobs for the version that a node has, whether or not it is the desired one, and whether or not this run has upgraded it.
// It reports whether all have succeeded.
func (t *turns) cleanUp(node *Node, step *Step) bool {
	for _, version := range t.prepared[node.UID] {
		if !SameVersion(version, node.Version) || t.runJobs(node, version, AfterUpgrade, step) {
			continue
		}
		if step.Status.Phase != v1alpha1.NodeFailed {
			step.Status.Phase = v1alpha1.NodeCleaningUp
		}
		return false
	}
	return true
}
