package plan

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

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
	return version == t.run.Desired || after == nil || !hasFailed(after) || t.mayRetry(id.Attempt)
}

// runJob takes a node through one Job of a rule, and reports whether the Job has succeeded.
func (t *turns) runJob(node *Node, version string, rule *Rule, kind JobKind, step *Step) bool {
	job, id := t.lastJob(node, version, rule, kind)
	if job != nil && step.Status.Started == nil {
		step.Status.Started = job.CreationTimestamp.DeepCopy()
	}
	if job == nil || hasFailed(job) && t.mayRetry(id.Attempt) {
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

// mayRetry reports whether a Job that has failed so often is run again: with the action Retry, once by default.
func (t *turns) mayRetry(failures int) bool {
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
// the Jobs of a clean-up.
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
