package machineconfig

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// queue works on names, each one by one worker at a time.
type queue struct {
	workqueue.TypedRateLimitingInterface[string]

	workers int
	sync    func(ctx context.Context, name string) (time.Duration, error)
	failed  func(error)
}

// newQueue makes a queue. What sync returns is when to call it again for the same name; zero is not before something happens.
func (s *Simulator) newQueue(workers int, sync func(context.Context, string) (time.Duration, error)) *queue {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 5*time.Second)
	config := workqueue.TypedRateLimitingQueueConfig[string]{Clock: s.opts.Clock}
	failed := func(err error) { s.logf("error: %v", err) }
	return &queue{workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config), workers, sync, failed}
}

// run works until the context ends.
func (q *queue) run(ctx context.Context) {
	var working sync.WaitGroup
	for range q.workers {
		working.Go(func() {
			for q.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	q.ShutDown()
	working.Wait()
}

func (q *queue) next(ctx context.Context) bool {
	name, shutdown := q.Get()
	if shutdown {
		return false
	}
	defer q.Done(name)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	wait, err := q.sync(ctx, name)
	if err != nil {
		if !apierrors.IsConflict(err) && !errors.Is(err, context.Canceled) {
			q.failed(err)
		}
		q.AddRateLimited(name)
		return true
	}
	q.Forget(name)
	if wait > 0 {
		q.AddAfter(name, wait)
	}
	return true
}

// overlay remembers what this process wrote until its cache has it, so that nothing is decided from before its own last write.
type overlay[T client.Object] struct {
	mu      sync.Mutex
	written map[string]T
}

func newOverlay[T client.Object]() *overlay[T] { return &overlay[T]{written: map[string]T{}} }

// wrote remembers the answer to a write.
func (o *overlay[T]) wrote(object T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written[object.GetName()] = object
}

// gone forgets an object that was deleted.
func (o *overlay[T]) gone(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.written, name)
}

// newest returns the newer one of the cached object and what was written.
func (o *overlay[T]) newest(cached T) T {
	o.mu.Lock()
	defer o.mu.Unlock()
	written, ok := o.written[cached.GetName()]
	if !ok {
		return cached
	}
	if written.GetUID() == cached.GetUID() && revision(written) > revision(cached) {
		return written
	}
	delete(o.written, cached.GetName())
	return cached
}

// revision is an object's resourceVersion as a number, which it is on every API server whose storage is etcd.
func revision(object client.Object) uint64 {
	number, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return number
}
