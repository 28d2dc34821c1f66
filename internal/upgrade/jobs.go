package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// create makes the Job that a node needs next. One of its name that is there already is that Job, if it is the run's.
func (p *pass) create(ctx context.Context, step *plan.Step) error {
	job := step.Job
	key := client.ObjectKeyFromObject(job)
	if err := p.aimed(ctx); err != nil {
		return err
	}
	if err := p.unedited(ctx, job); err != nil {
		return err
	}
	err := p.Writer.Create(ctx, job, fieldOwner)
	if apierrors.IsAlreadyExists(err) {
		job = &batchv1.Job{}
		if err = p.Live.Get(ctx, key, job); err == nil && job.Labels[plan.LabelRun] != string(p.run.UID) {
			why := fmt.Errorf("namespace %s has a Job of that name that is not of this run", key.Namespace)
			err = apierrors.NewForbidden(batchv1.Resource("jobs"), key.Name, why)
		}
	} else if err == nil {
		p.Metrics.jobs.WithLabelValues(job.Labels[plan.LabelKind], resultCreated).Inc()
		log.FromContext(ctx).Info("job made", "job", key, "node", step.Status.Name, "kind", job.Labels[plan.LabelKind])
	}
	if apierrors.IsNotFound(err) {
		// The namespace is gone, which only a person can put right.
		err = apierrors.NewForbidden(batchv1.Resource("jobs"), key.Name, err)
	}
	if err != nil {
		err = fmt.Errorf("creating Job %s for node %s: %w", key, step.Status.Name, err)
		step.Status.Message = err.Error()
		return err
	}
	p.owned.Created(string(p.run.UID), job)
	if step.Status.Started == nil {
		step.Status.Started = &metav1.Time{Time: p.now.UTC()}
	}
	return nil
}

// aimed makes sure that the version is still aimed at: the first list after a restart may be of an older aim, and a Job cannot be taken back.
func (p *pass) aimed(ctx context.Context) error {
	version := &configv1.ClusterVersion{}
	if err := p.Live.Get(ctx, types.NamespacedName{Name: plan.ClusterVersion}, version); err != nil {
		return fmt.Errorf("reading ClusterVersion %s: %w", plan.ClusterVersion, err)
	}
	if now := plan.Aim(version); !plan.Same(now, p.scene.Desired) {
		why := fmt.Errorf("version %s is aimed at by now, not %s", now, p.scene.Desired)
		return apierrors.NewConflict(configv1.Resource("clusterversions"), plan.ClusterVersion, why)
	}
	return nil
}

// unedited makes sure that the rule of a Job is still as it was read. When a rule is edited and then the Job deleted that has failed, the caches may
// show the deletion first.
func (p *pass) unedited(ctx context.Context, job *batchv1.Job) error {
	name := plan.IDOf(p.run.UID, job).Rule
	rule := &v1alpha1.MutexRule{}
	if err := p.Live.Get(ctx, name, rule); err != nil {
		return fmt.Errorf("reading MutexRule %s: %w", name, err)
	}
	unedited := slices.ContainsFunc(p.scene.Rules, func(read plan.Rule) bool {
		return read.Object.UID == rule.UID && read.Object.Generation == rule.Generation
	})
	if !unedited {
		why := errors.New("it was edited a moment ago, and its Job is made as it is now")
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("mutexrules").GroupResource(), name.String(), why)
	}
	return nil
}

// stopJobs ends the run's Jobs that still run.
func (p *pass) stopJobs(ctx context.Context) error {
	for key, job := range p.scene.Jobs {
		if plan.Over(job) || job.DeletionTimestamp != nil || p.behind(ctx, job) {
			continue
		}
		err := p.Writer.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("ending Job %s: %w", key, err)
		}
		p.owned.Deleted(string(p.run.UID), job)
		log.FromContext(ctx).Info("job ended, as its run is over", "job", key)
	}
	return nil
}

// newest is when the newest of the run's Jobs was made; nil for none.
func (p *pass) newest() *metav1.Time {
	var newest *metav1.Time
	for _, job := range p.scene.Jobs {
		if newest == nil || newest.Before(&job.CreationTimestamp) {
			newest = &job.CreationTimestamp
		}
	}
	return newest
}

// allOver tells that none of the run's Jobs runs any more, so that nothing can come to be owed for one.
func (p *pass) allOver() bool {
	for _, job := range p.scene.Jobs {
		if !plan.Over(job) {
			return false
		}
	}
	return true
}

// unsettled tells that the status does not say yet that nothing is owed for the run's Jobs.
func (p *pass) unsettled() bool {
	settled, newest := p.run.Status.Settled, p.newest()
	return !newest.IsZero() && (settled == nil || settled.Before(newest))
}

// tidyJobs gives the Jobs of a run that is over the time to live that their rules declare. Until then a Job has to stay, so that it is known
// to have run. Gone tells that the run is being deleted, so that nobody asks any more.
func (p *pass) tidyJobs(ctx context.Context, gone bool) error {
	lives := map[[2]string]*int32{}
	for _, rule := range p.scene.Rules {
		name := client.ObjectKeyFromObject(rule.Object).String()
		lives[[2]string{name, string(plan.BeforeUpgrade)}] = rule.Before.TTLSecondsAfterFinished
		if rule.After != nil {
			lives[[2]string{name, string(plan.AfterUpgrade)}] = rule.After.TTLSecondsAfterFinished
		}
	}
	for key, job := range p.scene.Jobs {
		live := lives[[2]string{job.Annotations[plan.AnnotationRule], job.Labels[plan.LabelKind]}]
		// One that has failed stays: without it it would be made again.
		ready := plan.Ended(job, batchv1.JobComplete) != nil || gone && plan.Over(job)
		if live == nil || job.Spec.TTLSecondsAfterFinished != nil || !ready || p.behind(ctx, job) {
			continue
		}
		changed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: job.UID}}
		changed.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
		text := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"ttlSecondsAfterFinished":%d}}`, job.UID, *live)
		err := p.Writer.Patch(ctx, changed, client.RawPatch(types.MergePatchType, text), fieldOwner)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("giving Job %s its time to live: %w", key, err)
		}
		p.wrote(changed)
	}
	return nil
}

// tellFailures sends an event for each Job that has failed, with the last lines of its log.
func (p *pass) tellFailures(ctx context.Context) {
	nodes := map[string]*v1alpha1.NodeStatus{}
	for i := range p.found.nodes {
		nodes[p.found.nodes[i].Name] = &p.found.nodes[i]
	}
	for key, job := range p.scene.Jobs {
		failure := plan.Ended(job, batchv1.JobFailed)
		if failure == nil || p.memory.told[job.UID] {
			continue
		}
		before := failure.LastTransitionTime.Time.Before(p.memory.begun.Truncate(1e9))
		if before && !p.unheard(job, nodes[job.Annotations[plan.AnnotationNode]]) {
			continue
		}
		p.memory.told[job.UID] = true
		p.Metrics.jobs.WithLabelValues(job.Labels[plan.LabelKind], resultFailed).Inc()
		text := fmt.Sprintf("Job %s for node %s has failed: %s", key, job.Annotations[plan.AnnotationNode], failure.Message)
		rule := p.ruleOf(job)
		if rule == nil || rule.Namespace == p.run.Namespace {
			p.Recorder.Event(p.run, corev1.EventTypeWarning, EventJobFailed, clip(text+p.lastLines(ctx, job, rule)))
			continue
		}
		// Who reads the events of the run's namespace need not be allowed to read logs of the rule's.
		p.Recorder.Event(p.run, corev1.EventTypeWarning, EventJobFailed, clip(text))
		p.Recorder.Event(rule, corev1.EventTypeWarning, EventJobFailed, clip(text+p.lastLines(ctx, job, rule)))
	}
}

// ruleOf returns the rule of a Job; nil if the run no longer has it.
func (p *pass) ruleOf(job *batchv1.Job) *v1alpha1.MutexRule {
	for _, rule := range p.scene.Rules {
		if client.ObjectKeyFromObject(rule.Object).String() == job.Annotations[plan.AnnotationRule] {
			return rule.Object
		}
	}
	return nil
}

// unheard tells that no process before this one can have told of a failure of before its time: the node stands where that Job has just failed,
// and the status does not name it yet.
func (p *pass) unheard(job *batchv1.Job, node *v1alpha1.NodeStatus) bool {
	id := plan.IDOf(p.run.UID, job)
	if node == nil || id.Version != p.scene.Desired {
		return false
	}
	name := job.Namespace + "/" + job.Name
	for i := range p.run.Status.Nodes {
		if n := &p.run.Status.Nodes[i]; n.Name == node.Name && n.Phase == v1alpha1.NodeFailed && n.Job == name {
			return false
		}
	}
	switch node.Phase {
	case v1alpha1.NodeFailed:
		return node.Job == name
	case v1alpha1.NodeRunningJobs:
		return id.Kind == plan.BeforeUpgrade && !p.repeated(id)
	case v1alpha1.NodeCleaningUp:
		return id.Kind == plan.AfterUpgrade && !p.repeated(id)
	}
	return false
}

// repeated tells that a Job has been run again.
func (p *pass) repeated(id plan.JobID) bool {
	id.Attempt++
	for _, job := range p.scene.Jobs {
		if plan.IDOf(p.run.UID, job) == id {
			return true
		}
	}
	return false
}

// lastLines reads the end of a Job's log for the event of its rule; empty without one. A kubelet that does not answer must not keep the run waiting.
func (p *pass) lastLines(ctx context.Context, job *batchv1.Job, rule *v1alpha1.MutexRule) string {
	if p.Logs == nil || rule == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, logsWithin)
	defer cancel()
	switch lines, err := p.Logs(ctx, job); {
	case err != nil:
		return fmt.Sprintf(" (its log cannot be read: %v)", err)
	case lines != "":
		return "; the last lines of its log:\n" + lines
	}
	return ""
}
