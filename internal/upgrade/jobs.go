package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	configv1 "github.com/openshift/api/config/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// createJob creates the Job that a node needs next. If a Job with its name exists, it is that Job if it is the run's.
func (rc *reconciliation) createJob(ctx context.Context, run *plan.Run, step *plan.Step) error {
	job := step.Job
	key := client.ObjectKeyFromObject(job)
	if err := rc.checkDesiredVersion(ctx, run); err != nil {
		return err
	}
	if err := rc.checkRule(ctx, run, job); err != nil {
		return err
	}
	err := rc.Writer.Create(ctx, job, fieldOwner)
	switch {
	case err == nil:
		rc.Metrics.jobs.WithLabelValues(job.Labels[plan.LabelKind], resultCreated).Inc()
		log.FromContext(ctx).Info("created a Job", "job", key, "node", step.Status.Name, "kind", job.Labels[plan.LabelKind])
	case apierrors.IsAlreadyExists(err):
		job = &batchv1.Job{}
		if err = rc.Live.Get(ctx, key, job); err == nil && job.Labels[plan.LabelRun] != string(rc.config.UID) {
			err = apierrors.NewForbidden(batchv1.Resource("jobs"), key.Name, errors.New("a Job of this name exists and is not of this run"))
		}
	}
	if apierrors.IsNotFound(err) {
		// The namespace does not exist, which only a user can correct.
		err = apierrors.NewForbidden(batchv1.Resource("jobs"), key.Name, err)
	}
	if err != nil {
		err = fmt.Errorf("creating Job %s for node %s: %w", key, step.Status.Name, err)
		step.Status.Message = err.Error()
		return err
	}
	rc.jobs.Created(string(rc.config.UID), job)
	if step.Status.Started == nil {
		step.Status.Started = &metav1.Time{Time: rc.now.UTC()}
	}
	return nil
}

// checkDesiredVersion fails if the API server has another desired version than the cache: after a restart the first list may be old, and a Job cannot
// be undone.
func (rc *reconciliation) checkDesiredVersion(ctx context.Context, run *plan.Run) error {
	version := &configv1.ClusterVersion{}
	if err := rc.Live.Get(ctx, types.NamespacedName{Name: plan.ClusterVersion}, version); err != nil {
		return fmt.Errorf("reading ClusterVersion %s: %w", plan.ClusterVersion, err)
	}
	if now := plan.DesiredVersion(version); !plan.SameVersion(now, run.Desired) {
		cause := fmt.Errorf("the desired version is %s now, not %s", now, run.Desired)
		return apierrors.NewConflict(configv1.Resource("clusterversions"), plan.ClusterVersion, cause)
	}
	return nil
}

// checkRule fails if the API server has another version of a Job's rule than the cache. When a user edits a rule and then deletes the Job that has
// failed, the cache may show the deletion first.
func (rc *reconciliation) checkRule(ctx context.Context, run *plan.Run, job *batchv1.Job) error {
	name := plan.JobIDOf(rc.config.UID, job).Rule
	rule := &v1alpha1.MutexRule{}
	if err := rc.Live.Get(ctx, name, rule); err != nil {
		return fmt.Errorf("reading MutexRule %s: %w", name, err)
	}
	if !slices.ContainsFunc(run.Rules, func(r plan.Rule) bool { return r.Object.UID == rule.UID && r.Object.Generation == rule.Generation }) {
		cause := errors.New("it has just been edited")
		return apierrors.NewConflict(resource("mutexrules"), name.String(), cause)
	}
	return nil
}

// stopJobs deletes the run's Jobs that are running.
func (rc *reconciliation) stopJobs(ctx context.Context, run *plan.Run) error {
	for key, job := range run.Jobs {
		if plan.IsFinished(job) || job.DeletionTimestamp != nil || rc.versions.Pending(ctx, job) {
			continue
		}
		err := rc.Writer.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Job %s: %w", key, err)
		}
		rc.jobs.Deleted(string(rc.config.UID), job)
		log.FromContext(ctx).Info("deleted a running Job of a run that ends", "job", key)
	}
	return nil
}

// setTimeToLive gives the Jobs of a run that is done the time to live that their rules declare. Until then a Job shows that it has run. deleted
// reports whether the run is being deleted, so that this does not matter any more: then a Job that the API server does not let Drover change stays as
// it is.
func (rc *reconciliation) setTimeToLive(ctx context.Context, run *plan.Run, deleted bool) error {
	for key, job := range run.Jobs {
		ttl := declaredTimeToLive(run, job)
		// A failed Job stays: without it, it would be created again.
		over := plan.JobCondition(job, batchv1.JobComplete) != nil || deleted && plan.IsFinished(job)
		if ttl == nil || job.Spec.TTLSecondsAfterFinished != nil || !over || rc.versions.Pending(ctx, job) {
			continue
		}
		changed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name, UID: job.UID}}
		changed.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
		text := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"ttlSecondsAfterFinished":%d}}`, job.UID, *ttl)
		err := rc.Writer.Patch(ctx, changed, client.RawPatch(types.MergePatchType, text), fieldOwner)
		switch {
		case deleted && status.Classify(err) == status.Denied:
			// The Jobs of a run that goes change nothing any more.
			log.FromContext(ctx).Error(err, "a Job of a deleted run stays: the API server denies its time to live", "job", key)
			continue
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("setting the time to live of Job %s: %w", key, err)
		}
		rc.expect(changed)
	}
	return nil
}

// declaredTimeToLive returns the time to live that the rule of a Job declares; nil for none.
func declaredTimeToLive(run *plan.Run, job *batchv1.Job) *int32 {
	rule := ruleOf(run, job)
	if rule == nil {
		return nil
	}
	if spec := rule.Spec(plan.JobKind(job.Labels[plan.LabelKind])); spec != nil {
		return spec.TTLSecondsAfterFinished
	}
	return nil
}

// ruleOf returns the rule of a Job; nil if the run does not have it any more.
func ruleOf(run *plan.Run, job *batchv1.Job) *plan.Rule {
	for i := range run.Rules {
		if rule := &run.Rules[i]; client.ObjectKeyFromObject(rule.Object).String() == job.Annotations[plan.AnnotationRule] {
			return rule
		}
	}
	return nil
}
