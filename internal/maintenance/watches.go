package maintenance

import (
	"context"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/watch"
)

// Index adds the index that the controller of a group needs to the cache, except the indexes of the drain engine.
func Index(ctx context.Context, indexer client.FieldIndexer, group *Group) error {
	err := indexer.IndexField(ctx, group.NewObject(), indexNode, func(object client.Object) []string {
		if maintenance, ok := object.(plan.Object); ok {
			return []string{maintenance.GetSpec().NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing %s: %w", group.Resource.GroupResource(), err)
	}
	return nil
}

// Own lists the kinds whose caches are dropped when the group is not served any more.
func (g *Group) Own() []client.Object { return []client.Object{g.NewObject()} }

// Kinds lists what the controller of a group watches.
func (g *Group) Kinds() []client.Object {
	return append(engine.Kinds(), g.NewObject(), &corev1.Node{}, &coordinationv1.Lease{})
}

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return append(r.Engine.Sources(cache, r.nodeToMaintenances),
		// A NodeMaintenance is created, changed or deleted. No other writer writes its status.
		watch.Source(cache, r.group.NewObject(), watch.Handler[plan.Object]{
			Created: func(_ context.Context, queue watch.Queue, object plan.Object, initial bool) {
				priority := watch.PriorityHigh
				if initial {
					priority = watch.PriorityStartup
				}
				queue.Add(priority, watch.RequestFor(object))
			},
			Updated: r.maintenanceUpdated,
			Deleted: func(_ context.Context, queue watch.Queue, object plan.Object) {
				queue.Add(watch.PriorityHigh, watch.RequestFor(object))
				r.Registry.released.Emit(object.GetSpec().NodeName)
			},
		}),
		// Another NodeMaintenance, of either group, has released the node.
		r.Registry.released.Source(r.nodeToMaintenances),
		// A Node is created, deleted, changed by another writer, or becomes unreachable.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: func(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
				if !initial {
					queue.Add(watch.PriorityHigh, r.nodeToMaintenances(ctx, node.Name)...)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
				if nodeMatters(before, after) {
					queue.Add(watch.PriorityHigh, r.nodeToMaintenances(ctx, after.Name)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				r.Nodes.Forget(string(node.UID))
				queue.Add(watch.PriorityHigh, r.nodeToMaintenances(ctx, node.Name)...)
			},
		}),
		// The budget of the node's NodeGroup has a place.
		r.Budgets.Source(v1alpha1.CapabilityMaintenance, r.nodeToMaintenances),
		// The lease of a node is released, or another holder acquires it.
		nodelease.Source(cache, r.nodeToMaintenances),
	)
}

// maintenanceUpdated ignores the controller's own writes.
func (r *Reconciler) maintenanceUpdated(_ context.Context, queue watch.Queue, before, after plan.Object) {
	if hasReleased(after) && !hasReleased(before) {
		r.Registry.released.Emit(after.GetSpec().NodeName)
	}
	if last, own := r.versions.Own(string(after.GetUID()), after.GetResourceVersion()); own && !last.Awaited && before.GetUID() == after.GetUID() {
		return
	}
	queue.Add(watch.PriorityHigh, watch.RequestFor(after))
}

// nodeMatters reports whether anything of a Node has changed that a maintenance depends on. The cache has no heartbeats.
func nodeMatters(before, after *corev1.Node) bool {
	return before.UID != after.UID || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!maps.Equal(before.Labels, after.Labels) || before.Annotations[drain.AnnotationCordon] != after.Annotations[drain.AnnotationCordon] ||
		!slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) }) ||
		!slices.Equal(before.Status.Conditions, after.Status.Conditions)
}

// nodeToMaintenances returns the NodeMaintenances of the group that name a Node.
func (r *Reconciler) nodeToMaintenances(ctx context.Context, node string) []reconcile.Request {
	objects, err := r.group.List(ctx, r.Cache, client.MatchingFields{indexNode: node})
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the NodeMaintenance of a Node", "node", node)
	}
	requests := make([]reconcile.Request, len(objects))
	for i, object := range objects {
		requests[i] = watch.RequestFor(object)
	}
	return requests
}
