package nodelease

import (
	"context"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/watch"
)

// Source returns the watch of a controller that acquires leases: the lease of a node is released, or another holder acquires it. requests returns the
// requests for a node.
func Source(cache ctrlcache.Cache, requests func(ctx context.Context, node string) []reconcile.Request) source.Source {
	add := func(ctx context.Context, queue watch.Queue, lease *coordinationv1.Lease) {
		// The name of a lease contains the name of its Node in lower case. Node names are in lower case anyway.
		if node, ok := strings.CutPrefix(lease.Name, Name("")); ok {
			queue.Add(watch.PriorityNormal, requests(ctx, node)...)
		}
	}
	return watch.Source(cache, &coordinationv1.Lease{}, watch.Handler[*coordinationv1.Lease]{
		Updated: func(ctx context.Context, queue watch.Queue, before, after *coordinationv1.Lease) {
			if HolderOf(before) != HolderOf(after) {
				add(ctx, queue, after)
			}
		},
		Deleted: add,
	})
}
