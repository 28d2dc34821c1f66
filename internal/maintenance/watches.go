package maintenance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/watch"
)

// Index gives the cache the indexes that the controller of a group reads by.
func Index(ctx context.Context, indexer client.FieldIndexer, flavour *Flavour) error {
	err := indexer.IndexField(ctx, flavour.fresh(), indexNode, func(object client.Object) []string {
		if v := flavour.view(object); v != nil {
			return []string{v.spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing %s: %w", flavour.Resource.GroupResource(), err)
	}
	return nil
}

// Own lists the kinds whose caches are dropped when the group is not served any more.
func (f *Flavour) Own() []client.Object { return []client.Object{f.fresh()} }

// Kinds lists what the controller of a group watches.
func (f *Flavour) Kinds() []client.Object {
	return append(engine.Kinds(), f.fresh(), &corev1.Node{}, &coordinationv1.Lease{})
}

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return append(r.Engine.Sources(cache, r.ofNode),
		// A maintenance is asked for, changed, or to end. Its own status is written by nobody else.
		watch.Source(cache, r.flavour.fresh(), watch.Handler[client.Object]{
			Created: func(_ context.Context, queue watch.Queue, object client.Object, initial bool) {
				priority := watch.Repair
				if initial {
					priority = watch.Initial
				}
				queue.Add(priority, named(object.GetName()))
			},
			Updated: func(_ context.Context, queue watch.Queue, before, after client.Object) {
				if ended(after) && !ended(before) {
					r.Registry.free(r.flavour.view(after).spec.NodeName)
				}
				if last, own := r.versions.Own(string(after.GetUID()), after.GetResourceVersion()); own && !last.Awaited && before.GetUID() == after.GetUID() {
					return
				}
				queue.Add(watch.Repair, named(after.GetName()))
			},
			Deleted: func(_ context.Context, queue watch.Queue, object client.Object) {
				queue.Add(watch.Repair, named(object.GetName()))
				r.Registry.free(r.flavour.view(object).spec.NodeName)
			},
		}),
		// Another maintenance, of either group, has let the node go.
		source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			to := watch.NewQueue(queue)
			context.AfterFunc(ctx, r.Registry.listen(r.flavour, func(node string) { to.Add(watch.Rollout, r.ofNode(ctx, node)...) }))
			return nil
		}),
		// The node is uncordoned or marked by somebody else, goes or comes back, or loses its kubelet.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: func(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
				if !initial {
					queue.Add(watch.Repair, r.ofNode(ctx, node.Name)...)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
				if nodeMatters(before, after) {
					queue.Add(watch.Repair, r.ofNode(ctx, after.Name)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				if r.Nodes != nil {
					r.Nodes.Forget(string(node.UID))
				}
				queue.Add(watch.Repair, r.ofNode(ctx, node.Name)...)
			},
		}),
		// A lease is given back, taken away, or renewed by somebody else.
		watch.Source(cache, &coordinationv1.Lease{}, watch.Handler[*coordinationv1.Lease]{
			Updated: func(ctx context.Context, queue watch.Queue, before, after *coordinationv1.Lease) {
				if nodelease.HolderOf(before) != nodelease.HolderOf(after) {
					queue.Add(watch.Rollout, r.ofLease(ctx, after.Name)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, lease *coordinationv1.Lease) {
				queue.Add(watch.Rollout, r.ofLease(ctx, lease.Name)...)
			},
		}),
	)
}

// nodeMatters ignores heartbeats.
func nodeMatters(before, after *corev1.Node) bool {
	return before.UID != after.UID || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		!maps.Equal(before.Labels, after.Labels) || before.Annotations[drain.AnnotationCordon] != after.Annotations[drain.AnnotationCordon] ||
		!slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) }) ||
		!slices.Equal(before.Status.Conditions, after.Status.Conditions)
}

// ofNode lists the NodeMaintenances of this group that name a node.
func (r *Reconciler) ofNode(ctx context.Context, node string) []reconcile.Request {
	list := r.flavour.list()
	if err := r.Cache.List(ctx, list, client.MatchingFields{indexNode: node}); err != nil {
		log.FromContext(ctx).Error(err, "cannot find the NodeMaintenance of a node", "node", node)
		return nil
	}
	var requests []reconcile.Request
	for _, object := range r.flavour.items(list) {
		requests = append(requests, named(object.GetName()))
	}
	return requests
}

func (r *Reconciler) ofLease(ctx context.Context, lease string) []reconcile.Request {
	node, ok := strings.CutPrefix(lease, nodelease.Name(""))
	if !ok {
		return nil
	}
	return r.ofNode(ctx, node)
}

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
