package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// keepsBackoff is the context key of a flag: the reconciliation keeps the backoff of its object.
type keepsBackoff struct{}

// KeepBackoff keeps the backoff of the object that is being reconciled, although the reconciliation ends without an error: it has only asked to wait.
// controller-runtime takes every result with RequeueAfter for a success and resets the backoff. Work that fails in the background, with waits in
// between, would be retried at the first delay forever.
func KeepBackoff(ctx context.Context) {
	if keeps, ok := ctx.Value(keepsBackoff{}).(*atomic.Bool); ok {
		keeps.Store(true)
	}
}

// limiter delays objects after failures, which count until a reconciliation ends without an error and without KeepBackoff.
type limiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	// keeps has the objects whose backoff the next Forget keeps, requeues when the next When reconciles an object at the latest.
	keeps, requeues sync.Map
}

// When counts a failure of an object and returns the delay of the next attempt: the backoff, or what the reconciliation asked for if that is sooner.
func (l *limiter) When(request reconcile.Request) time.Duration {
	delay := l.TypedRateLimiter.When(request)
	value, _ := l.requeues.LoadAndDelete(request)
	if asked, found := value.(time.Duration); found {
		return min(delay, asked)
	}
	return delay
}

// Forget resets the backoff of an object, unless its reconciliation has called KeepBackoff.
func (l *limiter) Forget(request reconcile.Request) {
	if _, keeps := l.keeps.LoadAndDelete(request); !keeps {
		l.TypedRateLimiter.Forget(request)
	}
}

// reconciler returns a reconciler that can call KeepBackoff, and that can return a delay beside an error: a part of it that has not failed does not
// wait for the end of the backoff. controller-runtime ignores such a delay.
func (l *limiter) reconciler(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		keeps := &atomic.Bool{}
		result, err := inner.Reconcile(context.WithValue(ctx, keepsBackoff{}, keeps), request)
		if err == nil && keeps.Load() {
			l.keeps.Store(request, true)
		}
		if err != nil && result.RequeueAfter > 0 {
			l.requeues.Store(request, result.RequeueAfter)
			result.RequeueAfter = 0
		}
		return result, err
	})
}
