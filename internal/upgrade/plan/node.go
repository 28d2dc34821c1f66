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
}

// InProgress reports whether the node's lease is needed. It is also needed for a node that has failed after its release.
func (s *Step) InProgress() bool {
	return inProgress(s.Status.Phase) || s.Status.Phase == v1alpha1.NodeFailed && s.Status.Released != nil
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

// runJobs runs the Jobs of one kind for a node and a version, one after another, and reports whether all have succeeded.
func (t *turns) runJobs(node *Node, version string, kind JobKind, step *Step) bool {
	var rules []*Rule
	for i := range t.run.Rules {
		if rule := &t.run.Rules[i]; rule.Spec(kind) != nil && (kind == BeforeUpgrade || t.needsCleanUp(node, version, rule)) {
			rules = append(rules, rule)
		}
	}
	for i, rule := range rules {
		step.Status.Message = fmt.Sprintf("Job %d of %d, of rule %s", i+1, len(rules), rule.Object.Name)
		if !t.runJob(node, version, rule, kind, step) {
			return false
		}
	}
	step.Status.Job, step.Status.Message = "", ""
	return true
}

// needsCleanUp reports whether a rule has to be cleaned up on a node with a version: its Job before the upgrade has succeeded, and the run was not
// settled since. A clean-up that has failed for another version than the desired one does not keep the node from the next upgrade.
func (t *turns) needsCleanUp(node *Node, version string, rule *Rule) bool {
	job, _ := t.lastJob(node, version, rule, BeforeUpgrade)
	if job == nil || JobCondition(job, batchv1.JobComplete) == nil || isSettled(t.run.Config, job) {
		return false
	}
	after, id := t.lastJob(node, version, rule, AfterUpgrade)
	return version == t.run.Desired || after == nil || !hasFailed(after) || t.retries(id.Attempt)
}

// runJob takes a node through one Job of a rule, and reports whether the Job has succeeded.
func (t *turns) runJob(node *Node, version string, rule *Rule, kind JobKind, step *Step) bool {
	job, id := t.lastJob(node, version, rule, kind)
	if job != nil && step.Status.Started == nil {
		step.Status.Started = job.CreationTimestamp.DeepCopy()
	}
	if job == nil || hasFailed(job) && t.retries(id.Attempt) {
		step.Job = NewJob(rule.Object, rule.Spec(kind), node.Node, id)
		step.Status.Job = keyOf(step.Job).String()
		return false
	}
	step.Status.Job = keyOf(job).String()
	switch {
	case hasFailed(job):
		step.fail(step.Status.Message + ", has failed: " + JobCondition(job, batchv1.JobFailed).Message)
	case JobCondition(job, batchv1.JobComplete) != nil:
		return true
	default:
		t.checkTimeout(job, step)
	}
	return false
}

// checkTimeout fails a node whose Job takes too long. The Job continues.
func (t *turns) checkTimeout(job *batchv1.Job, step *Step) {
	if timeout := t.run.Config.Spec.JobTimeout; t.isOverdue(timeout, job.CreationTimestamp, step) {
		step.fail(fmt.Sprintf("%s, has not ended within %s", step.Status.Message, timeout.Duration))
	}
}

// awaitPrevious waits for a running Job for another version: the Job of the same rule for the desired version must not run at the same time.
func (t *turns) awaitPrevious(job *batchv1.Job, step *Step) {
	step.Status.Phase, step.Status.Job = v1alpha1.NodeRunningJobs, keyOf(job).String()
	step.Status.Started = job.CreationTimestamp.DeepCopy()
	step.Status.Message = fmt.Sprintf("waiting for Job %s for version %s", job.Name, job.Annotations[AnnotationVersion])
	t.checkTimeout(job, step)
}

// retries reports whether a Job that has failed so often is run again: with the action Retry, once by default.
func (t *turns) retries(failures int) bool {
	on := t.run.Config.Spec.OnJobFailure
	return on.Action == v1alpha1.FailureRetry && failures <= max(int(on.Retries), 1)
}

// lastJob returns the newest attempt of a Job of a rule for a node, nil if there is none, and the identity of the attempt: of the next one, if that
// attempt has failed.
func (t *turns) lastJob(node *Node, version string, rule *Rule, kind JobKind) (last *batchv1.Job, id JobID) {
	id = JobID{
		Run: t.run.Config.UID, Version: version, Node: node.UID, Kind: kind, Rule: keyOf(rule.Object),
	}
	for {
		next := t.jobs[id]
		if next == nil {
			return last, id
		}
		last = next
		if !hasFailed(next) {
			return last, id
		}
		id.Attempt++
	}
}

// RemainingJobs returns the Jobs of a kind that have not succeeded for a node yet, as namespace/name. If the node has the desired version, they are
// those of a clean-up.
func (r *Run) RemainingJobs(node *Node, kind JobKind) []string {
	t := newTurns(r)
	upgraded := SameVersion(node.Version, r.Desired)
	var names []string
	for i := range r.Rules {
		rule := &r.Rules[i]
		if rule.Spec(kind) == nil || upgraded && (kind == BeforeUpgrade || !t.needsCleanUp(node, r.Desired, rule)) {
			continue
		}
		job, id := t.lastJob(node, r.Desired, rule, kind)
		if job == nil || JobCondition(job, batchv1.JobComplete) == nil {
			names = append(names, rule.Object.Spec.JobNamespace+"/"+JobName(rule.Object.Spec.JobName, id))
		}
	}
	return names
}
