package upgrade

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// maxTargetNodes is how many nodes the status of a MutexTarget lists, the same as maxItems in the schema.
const maxTargetNodes = 500

// targetReconciler lists the nodes of MutexTargets.
type targetReconciler struct{ *Reconciler }

// Reconcile lists the nodes of one target.
func (r *targetReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	target := &v1alpha1.MutexTarget{}
	if goesOn, result, err := controller.Begin(ctx, r.Cache, request.NamespacedName, target, r.versions); !goesOn || target.DeletionTimestamp != nil {
		return result, err
	}
	var names []string
	problem := r.options.refusal(target.Namespace)
	if problem == "" {
		mcps, nodes, err := r.readNodes(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		names, problem = plan.TargetNodes(target, mcps, nodes)
	}
	after := target.DeepCopy()
	after.Status.ObservedGeneration = target.Generation
	after.Status.Nodes = names[:min(len(names), maxTargetNodes)]
	after.Status.OmittedNodes = bounded.Int32(len(names) - len(after.Status.Nodes))
	plan.SetTargetConditions(&after.Status.Conditions, problem, target.Generation, r.timestamp())
	return reconcile.Result{}, r.patchStatusIfChanged(ctx, target, after, !apiequality.Semantic.DeepEqual(target.Status, after.Status))
}
