// Package policy keeps the parameters of the ValidatingAdmissionPolicy drover-nodegroup-members: the labels and annotations of Nodes that kubelets
// may not change, since NodeGroups select Nodes by them, or count them against their budgets.
//
// The parameters are a ConfigMap and not the NodeGroups themselves. After each of its starts an API server does not find a kind that a CRD defines
// for half a minute, and while it does not find the kind of a policy's parameters it denies whatever the policy is for, from everyone: here, all
// updates of Nodes (https://github.com/kubernetes/apiserver/blob/v0.37.1/pkg/admission/plugin/policy/generic/policy_source.go).
package policy

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
)

// Name is the controller's name in logs and metrics.
const Name = "node-group-policy"

// ConfigMapName is the name of the ConfigMap. The policy has the same name.
const ConfigMapName = "drover-nodegroup-members"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-node-group-policy")

// interval is how often the ConfigMap is compared again, in case someone has changed or deleted it.
const interval = time.Minute

// Dependencies are what the controller works with.
type Dependencies struct {
	Cache client.Reader
	// Live reads the ConfigMap from the API server: it is read too rarely for a cache.
	Live   client.Reader
	Writer client.Client
	// Namespace is where the ConfigMap is kept, and where the policy looks for it: Drover's own.
	Namespace string
}

// Reconciler reconciles the one ConfigMap.
type Reconciler struct {
	Dependencies
	conflicts *controller.Conflicts
}

// NewReconciler returns a Reconciler.
func NewReconciler(dependencies Dependencies) *Reconciler {
	return &Reconciler{Dependencies: dependencies, conflicts: controller.NewConflicts()}
}

// Run runs the controller until the context ends. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, dependencies Dependencies) error {
	r := NewReconciler(dependencies)
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "configmap"}, r.sources(cache)...)
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile has the ConfigMap say what the present NodeGroups need.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var requeue controller.Requeue
	requeue.In(interval)
	return r.conflicts.Result(request.NamespacedName, requeue, r.update(ctx, request.NamespacedName))
}

func (r *Reconciler) update(ctx context.Context, key types.NamespacedName) error {
	var groups v1alpha1.NodeGroupList
	if err := r.Cache.List(ctx, &groups); err != nil {
		return fmt.Errorf("listing NodeGroups: %w", err)
	}
	want, left := Parameters(groups.Items)
	if err := r.write(ctx, key, want); err != nil {
		return fmt.Errorf("ConfigMap %s, without which kubelets may change what NodeGroups select their Nodes by: %w", key, err)
	}
	if len(left) > 0 {
		return fmt.Errorf("all NodeGroups together select Nodes by more than %d labels: kubelets may change those of the newest %d groups, such as %s",
			maxLabels, len(left), left[0])
	}
	return nil
}

// write has the ConfigMap contain this data.
func (r *Reconciler) write(ctx context.Context, key types.NamespacedName, want map[string]string) error {
	next, now := applyv1.ConfigMap(key.Name, key.Namespace).WithData(want), &corev1.ConfigMap{}
	switch err := r.Live.Get(ctx, key, now); {
	case apierrors.IsNotFound(err):
		// Without groups, too: where it is missing, an API server looks for it in the store at each update of a Node.
	case err != nil:
		return err
	case maps.Equal(known(now.Data), want):
		return nil
	default:
		next.WithUID(now.UID).WithResourceVersion(now.ResourceVersion)
	}
	return r.Writer.Apply(ctx, next, FieldOwner, client.ForceOwnership)
}

// known returns the data that the policy reads. What others have added beside it stays.
func known(data map[string]string) map[string]string {
	out := map[string]string{}
	for _, name := range []string{KeyLabels, KeyAnnotations, KeyBudgetAnnotations} {
		if value, has := data[name]; has {
			out[name] = value
		}
	}
	return out
}
