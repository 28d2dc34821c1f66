package plan

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// Rule is a MutexRule of a run, read.
type Rule struct {
	// Object is the MutexRule.
	Object *v1alpha1.MutexRule
	// Key is its label's.
	Key string
	// Before and After are its Jobs; After is nil for none.
	Before, After *batchv1.JobSpec
}

// Node is a node of the run's targets.
type Node struct {
	*corev1.Node
	// Version is what it has; empty for not known.
	Version string
	// Pool is the target pool that it is of.
	Pool string
	// Unavailable tells that it is out of service: cordoned, or not Ready.
	Unavailable bool
	// Disputed tells that several pools select it, so that it is nobody's to mark.
	Disputed bool
	// Blocked says why it may not be begun; empty for nothing.
	Blocked string
	// Drain is what keeps its drain by the machine-config-operator.
	Drain Drain
}

// Step is what a node needs next. The zero value is nothing.
type Step struct {
	// Status is where the node stands.
	Status v1alpha1.NodeStatus
	// Job is to be created; nil for none.
	Job *batchv1.Job
	// Release has the labels of all rules taken off the node.
	Release bool
	// Wake is when to look again without an event; zero for no need.
	Wake time.Time
	// Delay is why a node that was released is not upgraded yet.
	Delay Delay
}

// job asks what became of one Job of a rule for a node, over all of its attempts.
func (s *scope) job(node *Node, version string, rule *Rule, kind JobKind) (found *batchv1.Job, id JobID) {
	id = JobID{
		Run: s.in.Run.UID, Version: version, Node: node.UID, Kind: kind,
		Rule: types.NamespacedName{Namespace: rule.Object.Namespace, Name: rule.Object.Name},
	}
	for {
		next := s.jobs[id]
		if next == nil {
			return found, id
		}
		found = next
		if !failed(next) {
			return found, id
		}
		id.Attempt++
	}
}

// Ended is the condition by which a Job has ended, Complete or Failed; nil for one that has not.
func Ended(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Over tells whether a Job has ended.
func Over(job *batchv1.Job) bool { return failed(job) || Ended(job, batchv1.JobComplete) != nil }

func failed(job *batchv1.Job) bool { return Ended(job, batchv1.JobFailed) != nil }

// run takes a node through the Jobs of one kind for a version. Over tells that all have succeeded.
func (s *scope) run(node *Node, version string, kind JobKind, step *Step) (over bool) {
	var rules []*Rule
	for i := range s.in.Rules {
		if rule := &s.in.Rules[i]; rule.spec(kind) != nil && (kind == BeforeUpgrade || s.owes(node, version, rule)) {
			rules = append(rules, rule)
		}
	}
	for i, rule := range rules {
		step.Status.Message = fmt.Sprintf("Job %d of %d, of rule %s", i+1, len(rules), rule.Object.Name)
		if !s.one(node, version, rule, kind, step) {
			return false
		}
	}
	step.Status.Job, step.Status.Message = "", ""
	return true
}

// owes tells whether a rule has something to clean up on a node that has a version: its Job before the upgrade has succeeded, and everything
// has not been settled since. What has failed for a version that is not aimed at any more is not what the next one waits for.
func (s *scope) owes(node *Node, version string, rule *Rule) bool {
	job, _ := s.job(node, version, rule, BeforeUpgrade)
	if job == nil || Ended(job, batchv1.JobComplete) == nil || settled(s.in.Run, job) {
		return false
	}
	after, id := s.job(node, version, rule, AfterUpgrade)
	return version == s.in.Desired || after == nil || !failed(after) || s.again(id.Attempt)
}

// settled tells that a Job's run has come to its end since the Job was made.
func settled(run *v1alpha1.MutexRunConfig, job *batchv1.Job) bool {
	return run.Status.Settled != nil && !job.CreationTimestamp.After(run.Status.Settled.Time)
}

// cleanUp runs the Jobs that are due after the upgrade of a node to the version that it has, whatever is aimed at and whoever has upgraded it.
func (s *scope) cleanUp(node *Node, step *Step) (over bool) {
	for _, version := range s.prepared[node.UID] {
		if !Same(version, node.Version) || s.run(node, version, AfterUpgrade, step) {
			continue
		}
		if step.Status.Phase != v1alpha1.NodeFailed {
			step.Status.Phase = v1alpha1.NodeCleaningUp
		}
		return false
	}
	return true
}

// one takes a node through one Job, and tells when it has succeeded.
func (s *scope) one(node *Node, version string, rule *Rule, kind JobKind, step *Step) (over bool) {
	job, id := s.job(node, version, rule, kind)
	if job != nil && step.Status.Started == nil {
		created := job.CreationTimestamp
		step.Status.Started = &created
	}
	step.Status.Job = rule.Object.Spec.JobNamespace + "/" + JobName(rule.Object.Spec.JobName, id)
	if job != nil && !failed(job) {
		step.Status.Job = job.Namespace + "/" + job.Name
	}
	switch {
	case job == nil || failed(job) && s.again(id.Attempt):
		step.Job = Job(rule.Object, rule.spec(kind), node.Node, id)
	case failed(job):
		step.Status.Phase = v1alpha1.NodeFailed
		step.Status.Job = job.Namespace + "/" + job.Name
		step.Status.Message += ", has failed: " + Ended(job, batchv1.JobFailed).Message
	case Ended(job, batchv1.JobComplete) != nil:
		return true
	default:
		s.overdue(job, step)
	}
	return false
}

// overdue fails a node whose Job takes too long. The Job is left as it is, for people to look at.
func (s *scope) overdue(job *batchv1.Job, step *Step) {
	timeout := s.in.Run.Spec.JobTimeout
	if timeout == nil || timeout.Duration <= 0 {
		return
	}
	due := job.CreationTimestamp.Add(bounded.Duration(timeout.Duration))
	if s.in.Now.Before(due) {
		step.Wake = due
		return
	}
	step.Status.Phase = v1alpha1.NodeFailed
	step.Status.Message += fmt.Sprintf(", has not ended within %s", timeout.Duration)
}

// outlast has a node wait for the end of a Job that was made before another version was aimed at: its rule's next one must not run beside it.
func (s *scope) outlast(job *batchv1.Job, step *Step) {
	created := job.CreationTimestamp
	step.Status.Phase, step.Status.Job, step.Status.Started = v1alpha1.NodeRunningJobs, job.Namespace+"/"+job.Name, &created
	step.Status.Message = fmt.Sprintf("waits for Job %s of version %s", job.Name, job.Annotations[AnnotationVersion])
	s.overdue(job, step)
}

// again tells whether a Job that has failed so often is run once more. Who asks for that and does not say how often has it run once more.
func (s *scope) again(failures int) bool {
	on := s.in.Run.Spec.OnJobFailure
	return on.Action == v1alpha1.FailureRetry && failures <= max(int(on.Retries), 1)
}

func (r *Rule) spec(kind JobKind) *batchv1.JobSpec {
	if kind == AfterUpgrade {
		return r.After
	}
	return r.Before
}

// node says where one node stands, and what it needs next. May tells whether it may be begun.
func (s *scope) node(node *Node, may bool) Step {
	step := Step{Status: v1alpha1.NodeStatus{Name: node.Name, Phase: v1alpha1.NodePending}}
	release := s.release(node, &step)
	switch {
	case Same(node.Version, s.in.Desired) && (release == nil || !atWork(node.Node)):
		// One that had it before its turn came needs nothing.
		step.Status.Phase = v1alpha1.NodeDone
		s.cleanUp(node, &step)
	case release != nil && release.Version == s.in.Desired:
		s.upgrading(node, release, &step)
	case release != nil:
		// It was let go for another version, and the machine-config-operator is at work on it. It is gated again when that is over.
		text, delay := progress(node)
		step.Status.Phase, step.Delay = v1alpha1.NodeUpgrading, delay
		step.Status.Message = fmt.Sprintf("it was let go for version %s; %s", release.Version, text)
	case !s.cleanUp(node, &step):
	case s.older[node.UID] != nil:
		s.outlast(s.older[node.UID], &step)
	case may || s.begun[node.UID]:
		step.Status.Phase = v1alpha1.NodeRunningJobs
		if s.run(node, s.in.Desired, BeforeUpgrade, &step) {
			step.Status.Phase, step.Release = v1alpha1.NodeReleased, true
		}
	}
	return step
}

// release is what a node was let go for; nil for one that was not.
func (s *scope) release(node *Node, step *Step) *Release {
	if !free(node.Node, s.in.Run.UID, s.keys) {
		return nil
	}
	release := ReleaseOf(node.Node)
	if release != nil {
		step.Status.Released = &release.At
	}
	return release
}

// upgrading is a node that was let go.
func (s *scope) upgrading(node *Node, release *Release, step *Step) {
	step.Status.Phase = v1alpha1.NodeReleased
	if atWork(node.Node) {
		step.Status.Phase = v1alpha1.NodeUpgrading
	}
	switch node.Annotations[annotationState] {
	case "Degraded", "Unreconcilable":
		step.Status.Phase = v1alpha1.NodeFailed
		step.Status.Message = failure(node)
		return
	}
	step.Status.Message, step.Delay = progress(node)
	timeout := s.in.Run.Spec.NodeTimeout
	if timeout == nil || timeout.Duration <= 0 {
		return
	}
	due := release.At.Add(bounded.Duration(timeout.Duration))
	if s.in.Now.Before(due) {
		step.Wake = due
		return
	}
	step.Status.Phase = v1alpha1.NodeFailed
	step.Status.Message = fmt.Sprintf("it has not come to version %s within %s: %s", s.in.Desired, timeout.Duration, step.Status.Message)
}

// sorted puts nodes into the order in which they have their turn.
func (s *scope) sorted() []*Node {
	nodes := slices.Clone(s.in.Nodes)
	zone := func(n *Node) string {
		if s.in.Run.Spec.NodeOrder == v1alpha1.OrderZone {
			return n.Labels[corev1.LabelTopologyZone]
		}
		return ""
	}
	slices.SortFunc(nodes, func(a, b *Node) int {
		if left, right := zone(a), zone(b); left != right {
			if left < right {
				return -1
			}
			return 1
		}
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return nodes
}

// Outstanding names the Jobs of a kind that a node has still to see end well, as namespace/name. One that has the version sees those alone
// that are owed.
func (s *Scene) Outstanding(node *Node, kind JobKind) []string {
	inner := newScope(s.Input())
	has := Same(node.Version, s.Desired)
	var names []string
	for i := range s.Rules {
		if s.Rules[i].spec(kind) == nil || has && (kind == BeforeUpgrade || !inner.owes(node, s.Desired, &s.Rules[i])) {
			continue
		}
		job, id := inner.job(node, s.Desired, &s.Rules[i], kind)
		if job == nil || Ended(job, batchv1.JobComplete) == nil {
			object := s.Rules[i].Object
			names = append(names, object.Spec.JobNamespace+"/"+JobName(object.Spec.JobName, id))
		}
	}
	return names
}
