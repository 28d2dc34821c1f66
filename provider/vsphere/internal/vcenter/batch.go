package vcenter

import (
	"context"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/clock"
)

// collectFor is how long calls for several virtual machines are collected.
const collectFor = 200 * time.Millisecond

// batches make one call for all virtual machines that need it at about the same time, by a key such as the datacenter.
type batches[K comparable] struct {
	clock clock.Clock
	// call does it for all, and returns an error for all or one for each that failed.
	call func(ctx context.Context, key K, refs []types.ManagedObjectReference) (map[types.ManagedObjectReference]error, error)

	mu      sync.Mutex
	waiting map[K]map[types.ManagedObjectReference][]chan error
	busy    map[K]bool
	wake    chan struct{}
}

func newBatches[K comparable](
	clock clock.Clock, call func(context.Context, K, []types.ManagedObjectReference) (map[types.ManagedObjectReference]error, error),
) *batches[K] {
	return &batches[K]{
		clock: clock, call: call, waiting: map[K]map[types.ManagedObjectReference][]chan error{}, busy: map[K]bool{},
		wake: make(chan struct{}, 1),
	}
}

// do has the call made for a virtual machine with the next batch, and waits for that.
func (b *batches[K]) do(ctx context.Context, key K, ref types.ManagedObjectReference) error {
	done := make(chan error, 1)
	b.mu.Lock()
	if b.waiting[key] == nil {
		b.waiting[key] = map[types.ManagedObjectReference][]chan error{}
	}
	b.waiting[key][ref] = append(b.waiting[key][ref], done)
	b.mu.Unlock()
	b.wakeUp()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes the calls until the context ends. Those with the same key come one after another.
func (b *batches[K]) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		timer := b.clock.NewTimer(collectFor)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		for key, items := range b.take() {
			go b.make(ctx, key, items)
		}
	}
}

// take returns the waiting items, except for the keys that already have a call under way.
func (b *batches[K]) take() map[K]map[types.ManagedObjectReference][]chan error {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := map[K]map[types.ManagedObjectReference][]chan error{}
	for key, items := range b.waiting {
		if !b.busy[key] {
			b.busy[key], taken[key] = true, items
			delete(b.waiting, key)
		}
	}
	return taken
}

func (b *batches[K]) wakeUp() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// recovered makes a call, and an error of a panic in it: nothing above would recover it.
func (b *batches[K]) recovered(
	ctx context.Context, key K, refs []types.ManagedObjectReference,
) (failed map[types.ManagedObjectReference]error, err error) {
	defer recoverPanic(ctx, &err)
	return b.call(ctx, key, refs)
}

func (b *batches[K]) make(ctx context.Context, key K, items map[types.ManagedObjectReference][]chan error) {
	refs := make([]types.ManagedObjectReference, 0, len(items))
	for ref := range items {
		refs = append(refs, ref)
	}
	failed, err := b.recovered(ctx, key, refs)
	b.mu.Lock()
	delete(b.busy, key)
	b.mu.Unlock()
	b.wakeUp()
	for ref, waiting := range items {
		result := err
		if result == nil {
			result = failed[ref]
		}
		for _, done := range waiting {
			done <- result
		}
	}
}
