package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// ruleReconciler says whether MutexRules can be used.
type ruleReconciler struct{ *Reconciler }

// Reconcile has the API server look at the Jobs of one rule, without making them.
func (r *ruleReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	rule := &v1alpha1.MutexRule{}
	if err := r.Cache.Get(ctx, request.NamespacedName, rule); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case rule.DeletionTimestamp != nil:
		return reconcile.Result{}, nil
	case r.behind(ctx, rule):
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	found, result := conditions{}, reconcile.Result{}
	before := meta.FindStatusCondition(rule.Status.Conditions, ConditionValid)
	if why := r.options.refusal(rule.Namespace); why != "" {
		found.no(ConditionValid, why)
	} else if before != nil && before.ObservedGeneration == rule.Generation && before.Status == metav1.ConditionTrue {
		return reconcile.Result{}, nil
	} else if fault, err := r.judge(ctx, rule); err != nil {
		return reconcile.Result{}, err
	} else if fault != "" {
		found.no(ConditionValid, fault)
		result.RequeueAfter = retryRule
	} else {
		found.yes(ConditionValid, "")
	}
	changed := rule.DeepCopy()
	changed.Status.ObservedGeneration = rule.Generation
	found.apply(&changed.Status.Conditions, rule.Generation, metav1.NewTime(r.clock.Now().UTC().Truncate(1e9)))
	return result, r.writeIfChanged(ctx, rule, changed, apiequality.Semantic.DeepEqual(rule.Status, changed.Status))
}

// writeIfChanged patches a status.
func (r *Reconciler) writeIfChanged(ctx context.Context, before, after client.Object, same bool) error {
	if same {
		return nil
	}
	err := r.Writer.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner)
	switch status.Classify(err) {
	case status.OK:
		r.wrote(after)
		return nil
	case status.Gone:
		return nil
	}
	return fmt.Errorf("writing the status of %s: %w", before.GetName(), err)
}

// judge says what is wrong with a rule; empty for nothing.
func (r *ruleReconciler) judge(ctx context.Context, rule *v1alpha1.MutexRule) (fault string, err error) {
	read, err := plan.ReadRule(rule)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // it is the rule's fault, and a condition tells it
	}
	for _, job := range []struct {
		field string
		kind  plan.JobKind
		spec  *batchv1.JobSpec
	}{{"spec.jobSpec", plan.BeforeUpgrade, read.Before}, {"spec.cleanUpJobSpec", plan.AfterUpgrade, read.After}} {
		if job.spec == nil {
			continue
		}
		example := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "example"}}
		id := plan.JobID{Run: rule.UID, Rule: client.ObjectKeyFromObject(rule), Kind: job.kind, Version: "0.0.0"}
		err := r.Writer.Create(ctx, plan.Job(rule, job.spec, example, id), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
		case status.Classify(err) == status.Denied, apierrors.IsNotFound(err):
			return fmt.Sprintf("%s: the API server does not take the Job: %v", job.field, err), nil
		default:
			return "", fmt.Errorf("having the Job of MutexRule %s/%s looked at: %w", rule.Namespace, rule.Name, err)
		}
	}
	return "", nil
}

// mostTargetNodes is how many nodes the status of a MutexTarget names, the same as maxItems in the schema.
const mostTargetNodes = 500

// targetReconciler lists the nodes of MutexTargets.
type targetReconciler struct{ *Reconciler }

// Reconcile lists the nodes of one target.
func (r *targetReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	target := &v1alpha1.MutexTarget{}
	if err := r.Cache.Get(ctx, request.NamespacedName, target); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case target.DeletionTimestamp != nil:
		return reconcile.Result{}, nil
	case r.behind(ctx, target):
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	names, fault, err := r.members(ctx, target)
	if err != nil {
		return reconcile.Result{}, err
	}
	found := conditions{}
	if fault == "" {
		found.yes(ConditionValid, "")
		found.yes(ConditionGathered, "")
	} else {
		names = nil
		found.no(ConditionValid, fault)
		found.no(ConditionGathered, fault)
	}
	changed := target.DeepCopy()
	changed.Status.ObservedGeneration = target.Generation
	changed.Status.Nodes = names[:min(len(names), mostTargetNodes)]
	changed.Status.OmittedNodes = bounded.Int32(len(names) - len(changed.Status.Nodes))
	now := metav1.NewTime(r.clock.Now().UTC().Truncate(1e9))
	found.apply(&changed.Status.Conditions, target.Generation, now)
	if valid := meta.FindStatusCondition(changed.Status.Conditions, ConditionValid); valid != nil {
		// Of a target the incumbent gives this condition the reasons of the other.
		reasons := reasonsOf[ConditionGathered]
		valid.Reason = reasons.unmet
		if fault == "" {
			valid.Reason = reasons.met
		}
	}
	return reconcile.Result{}, r.writeIfChanged(ctx, target, changed, apiequality.Semantic.DeepEqual(target.Status, changed.Status))
}

// members names the nodes of a target's pools, or says which pool is missing.
func (r *targetReconciler) members(ctx context.Context, target *v1alpha1.MutexTarget) (names []string, fault string, err error) {
	if why := r.options.refusal(target.Namespace); why != "" {
		return nil, why, nil
	}
	pools, err := listPools(ctx, r.Cache)
	if err != nil {
		return nil, "", err
	}
	var missing []string
	for _, name := range target.Spec.MachineConfigPools {
		if !slices.ContainsFunc(pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == name }) {
			missing = append(missing, name)
		}
	}
	members, err := plan.NewMembers(pools)
	switch {
	case len(missing) > 0:
		return nil, "there are no MachineConfigPools " + strings.Join(missing, ", "), nil
	case err != nil:
		return nil, err.Error(), nil //nolint:nilerr // it is the pool's fault, and a condition tells it
	}
	nodes, err := listNodes(ctx, r.Cache)
	if err != nil {
		return nil, "", err
	}
	for _, node := range nodes {
		in := members.PoolsOf(node)
		if slices.ContainsFunc(in, func(pool string) bool { return slices.Contains(target.Spec.MachineConfigPools, pool) }) {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names, "", nil
}
