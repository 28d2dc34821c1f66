// Package watch feeds a controller's queue from informers, and removes its handlers when the controller ends.
//
// controller-runtime's own source keeps its handler on the informer for as long as the informer lives. A capability whose CRDs come
// and go would leave one behind each time, on the informer of Nodes that all capabilities share.
package watch

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/undecodable"
)

// Priorities of work items. Higher ones are worked on first; the queue keeps an item's highest.
const (
	// PriorityHigh is for an object that another writer changed: a single one must not wait behind a roll-out.
	PriorityHigh = 10
	// PriorityNormal is for the objects that a change of another object concerns.
	PriorityNormal = 0
	// PriorityStartup is for the first look at what is there already when the process starts.
	PriorityStartup = -100
)

// RequestFor returns the request for an object.
func RequestFor(object client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
}

// Queue is where handlers put work items.
type Queue struct {
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewQueue makes a Queue of a controller's own, for sources that are not of this package.
func NewQueue(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) Queue {
	return Queue{queue}
}

// Add puts items into the queue with one of the priorities above. On a queue without priorities they are all equal.
func (q Queue) Add(priority int, items ...reconcile.Request) {
	q.AddAfter(priority, 0, items...)
}

// AddAfter is Add for items that may wait: what comes for them meanwhile is one work item.
func (q Queue) AddAfter(priority int, wait time.Duration, items ...reconcile.Request) {
	if prioritised, ok := q.queue.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritised.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: wait}, items...)
		return
	}
	for _, item := range items {
		q.queue.AddAfter(item, wait)
	}
}

// Handler says what an event means for the queue. Nil functions ignore their events. The objects are the cache's own: they must not
// be changed.
type Handler[T any] struct {
	// Created is called for an object that appeared, or that can be decoded since now, or no longer; initial reports that it existed when the watch
	// began.
	Created func(ctx context.Context, queue Queue, object T, initial bool)
	// Updated is called when anything of an object has changed.
	Updated func(ctx context.Context, queue Queue, before, after T)
	// Deleted is called for an object that is gone, with its last known state.
	Deleted func(ctx context.Context, queue Queue, object T)
}

// Source makes a source of a kind's events. It ends with the context it is started with.
func Source[T client.Object](cache ctrlcache.Cache, kind T, handler Handler[T]) source.Source {
	return SourceOf(cache, kind, handler)
}

// SourceOf is Source for a cache that keeps something else than the kind itself.
func SourceOf[T any](cache ctrlcache.Cache, kind client.Object, handler Handler[T]) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		_, err := handle(ctx, cache, kind, Queue{queue}, handler)
		return err
	})
}

// Handle calls a handler, which has no queue, until the context ends. synced reports whether it has been called for all that existed.
func Handle[T client.Object](ctx context.Context, cache ctrlcache.Cache, kind T, handler Handler[T]) (synced func() bool, err error) {
	return handle(ctx, cache, kind, Queue{}, handler)
}

func handle[T any](
	ctx context.Context, cache ctrlcache.Cache, kind client.Object, queue Queue, handler Handler[T],
) (synced func() bool, err error) {
	informer, err := cache.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(adapt(ctx, queue, handler))
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	context.AfterFunc(ctx, func() {
		if err := informer.RemoveEventHandler(registration); err != nil {
			log.FromContext(ctx).Error(err, "cannot let go of an informer")
		}
	})
	return func() bool { return registration.HasSynced() }, nil
}

func update[T any](ctx context.Context, queue Queue, handler Handler[T], from, to T) {
	if handler.Updated != nil {
		handler.Updated(ctx, queue, from, to)
	}
	if handler.Created != nil && undecodable.Changed(from, to) {
		// What was skipped because of it is reconciled.
		handler.Created(ctx, queue, to, false)
	}
}

func adapt[T any](ctx context.Context, queue Queue, handler Handler[T]) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if typed, ok := object.(T); ok && handler.Created != nil {
				handler.Created(ctx, queue, typed, initial)
			}
		},
		UpdateFunc: func(before, after any) {
			from, ok := before.(T)
			if to, also := after.(T); ok && also {
				update(ctx, queue, handler, from, to)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if typed, ok := object.(T); ok && handler.Deleted != nil {
				handler.Deleted(ctx, queue, typed)
			}
		},
	}
}
