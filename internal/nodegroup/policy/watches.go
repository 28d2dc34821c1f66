package policy

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/watch"
)

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: ConfigMapName}}
	enqueue := func(queue watch.Queue) { queue.Add(watch.PriorityNormal, request) }
	return []source.Source{
		// A start, also without any group: what the ConfigMap has may be of groups that are gone.
		source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(request)
			return nil
		}),
		// A group appears or goes, or selects Nodes otherwise.
		watch.Source(cache, &v1alpha1.NodeGroup{}, watch.Handler[*v1alpha1.NodeGroup]{
			Created: func(_ context.Context, queue watch.Queue, _ *v1alpha1.NodeGroup, _ bool) { enqueue(queue) },
			Updated: func(_ context.Context, queue watch.Queue, before, after *v1alpha1.NodeGroup) {
				if before.Generation != after.Generation || before.UID != after.UID {
					enqueue(queue)
				}
			},
			Deleted: func(_ context.Context, queue watch.Queue, _ *v1alpha1.NodeGroup) { enqueue(queue) },
		}),
	}
}
