package upgrade

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// retryRule is how soon a rule is validated again whose Jobs the API server has denied.
const retryRule = 5 * time.Minute

// ruleReconciler validates MutexRules.
type ruleReconciler struct{ *Reconciler }

// Reconcile has the API server validate the Jobs of one rule, without creating them.
func (r *ruleReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	rule := &v1alpha1.MutexRule{}
	if goesOn, result, err := controller.Begin(ctx, r.Cache, request.NamespacedName, rule, r.versions); !goesOn || rule.DeletionTimestamp != nil {
		return result, err
	}
	var result reconcile.Result
	problem := r.options.refusal(rule.Namespace)
	if problem == "" {
		before := meta.FindStatusCondition(rule.Status.Conditions, plan.ConditionValid)
		if before != nil && before.ObservedGeneration == rule.Generation && before.Status == metav1.ConditionTrue {
			return reconcile.Result{}, nil
		}
		var err error
		if problem, err = r.validate(ctx, rule); err != nil {
			return reconcile.Result{}, err
		}
		if problem != "" {
			result.RequeueAfter = retryRule
		}
	}
	after := rule.DeepCopy()
	after.Status.ObservedGeneration = rule.Generation
	conditions := plan.Conditions{}
	conditions.Set(plan.ConditionValid, problem == "", problem)
	conditions.ApplyTo(&after.Status.Conditions, rule.Generation, r.timestamp())
	return result, r.patchStatusIfChanged(ctx, rule, after, !apiequality.Semantic.DeepEqual(rule.Status, after.Status))
}

// timestamp returns the time as the API represents it.
func (r *Reconciler) timestamp() metav1.Time {
	return metav1.NewTime(r.clock.Now().UTC().Truncate(time.Second))
}

// validate returns what is wrong with a rule; empty if it is valid.
func (r *ruleReconciler) validate(ctx context.Context, object *v1alpha1.MutexRule) (problem string, err error) {
	rule, err := plan.ParseRule(object)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // the rule is invalid, which its condition reports
	}
	example := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
	for _, kind := range []plan.JobKind{plan.BeforeUpgrade, plan.AfterUpgrade} {
		spec, field := rule.Spec(kind), "spec.jobSpec"
		if kind == plan.AfterUpgrade {
			field = "spec.cleanUpJobSpec"
		}
		if spec == nil {
			continue
		}
		id := plan.JobID{Run: object.UID, Rule: client.ObjectKeyFromObject(object), Kind: kind, Version: "0.0.0"}
		job := plan.NewJob(object, spec, example, id)
		// The Jobs of a run get it when the run is done, which must not fail then.
		job.Spec.TTLSecondsAfterFinished = spec.TTLSecondsAfterFinished
		err := r.Writer.Create(ctx, job, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
		case status.Classify(err) == status.Denied, apierrors.IsNotFound(err):
			return fmt.Sprintf("%s: the API server rejects the Job: %v", field, err), nil
		default:
			return "", fmt.Errorf("validating a Job of MutexRule %s/%s: %w", object.Namespace, object.Name, err)
		}
	}
	return "", nil
}
