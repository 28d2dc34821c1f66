package watch

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// NodeEvents passes events that are no events of the API server, each with the name of a node, to controllers. The zero value has no controllers.
type NodeEvents struct {
	mu        sync.Mutex
	listeners map[*Queue]func(node string)
}

// Emit enqueues what an event of a node concerns, in every controller.
func (e *NodeEvents) Emit(node string) {
	e.mu.Lock()
	listeners := slices.Collect(maps.Values(e.listeners))
	e.mu.Unlock()
	for _, listener := range listeners {
		listener(node)
	}
}

// Source returns the source of the events for one controller, which ends with the context that it is started with. requests returns the requests for
// a node.
func (e *NodeEvents) Source(requests func(ctx context.Context, node string) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.listeners == nil {
			e.listeners = map[*Queue]func(string){}
		}
		to := &Queue{queue}
		e.listeners[to] = func(node string) { to.Add(PriorityNormal, requests(ctx, node)...) }
		context.AfterFunc(ctx, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			delete(e.listeners, to)
		})
		return nil
	})
}
