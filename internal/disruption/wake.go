package disruption

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/watch"
)

// maxWoken bounds how many requests are made again when places become free: each of them that is admitted takes a write.
const maxWoken = 16

// Wake has those make their requests again that would be admitted now. The controller of NodeGroups calls it when something has changed that the
// budget depends on: a Node, a lease, an admission, the spec.
func (b *Budgets) Wake(ctx context.Context, name string) error {
	next, err := b.next(ctx, name)
	for i := range next {
		b.listeners.emit(next[i].Capability, next[i].Node)
	}
	return err
}

func (b *Budgets) next(ctx context.Context, name string) ([]plan.Request, error) {
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return nil, err
	}
	defer g.unlock()
	if g.queue.Len() == 0 {
		return nil, nil
	}
	in, err := b.observe(ctx, g, b.Clock.Now().Add(-requestsAge))
	if apierrors.IsConflict(err) {
		// The group is gone, and its budget with it.
		return slices.Collect(g.queue.All(b.Clock.Now())), nil
	}
	if err != nil {
		return nil, err
	}
	moved, err := b.dropMoved(ctx, g)
	if err != nil {
		return nil, err
	}
	return append(moved, plan.Next(in, maxWoken)...), nil
}

// dropMoved removes the requests that wait and whose Node has left the group, and returns them: they wait for another group, or for none.
func (b *Budgets) dropMoved(ctx context.Context, g *group) (moved []plan.Request, err error) {
	for request := range g.queue.All(b.Clock.Now()) {
		of, err := b.Membership.GroupOf(ctx, request.Node)
		if err != nil {
			return nil, fmt.Errorf("finding the NodeGroup of Node %s: %w", request.Node, err)
		}
		if of != g.name {
			moved = append(moved, request)
		}
	}
	for i := range moved {
		g.drop(moved[i].Key())
	}
	return moved, nil
}

// Source returns the source of a controller whose requests wait: a place has become free for one of them. requests returns the requests of
// reconciliations for a node.
func (b *Budgets) Source(
	capability v1alpha1.Capability, requests func(ctx context.Context, node string) []reconcile.Request,
) source.Source {
	if b == nil {
		return new(watch.NodeEvents).Source(requests)
	}
	return b.listeners.of(capability).Source(requests)
}

// listeners are the controllers that are woken, by capability.
type listeners struct {
	mu     sync.Mutex
	events map[v1alpha1.Capability]*watch.NodeEvents
}

func (l *listeners) of(capability v1alpha1.Capability) *watch.NodeEvents {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = map[v1alpha1.Capability]*watch.NodeEvents{}
	}
	if l.events[capability] == nil {
		l.events[capability] = &watch.NodeEvents{}
	}
	return l.events[capability]
}

func (l *listeners) emit(capability v1alpha1.Capability, node string) { l.of(capability).Emit(node) }
