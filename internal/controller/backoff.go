package controller

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// keepsBackoff is the key of a context's value that is true if the failures of the object that is reconciled count further.
type keepsBackoff struct{}

// KeepBackoff has the failures of the object that is being reconciled count further, although its reconciliation ends without an error: it has only
// asked to wait. controller-runtime takes every result with RequeueAfter for a success, so that what fails in the background, and is waited for in
// between, would be tried again at the first delay for ever.
func KeepBackoff(ctx context.Context) {
	if keeps, ok := ctx.Value(keepsBackoff{}).(*atomic.Bool); ok {
		keeps.Store(true)
	}
}

// limiter delays objects after failures, which count until a reconciliation ends without an error and without KeepBackoff.
type limiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	// keeps has the objects whose failures the next Forget does not end.
	keeps sync.Map
}

// Forget ends the failures of an object.
func (l *limiter) Forget(request reconcile.Request) {
	if _, keeps := l.keeps.LoadAndDelete(request); !keeps {
		l.TypedRateLimiter.Forget(request)
	}
}

// reconciler returns a reconciler that can call KeepBackoff.
func (l *limiter) reconciler(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		keeps := &atomic.Bool{}
		result, err := inner.Reconcile(context.WithValue(ctx, keepsBackoff{}, keeps), request)
		if err == nil && keeps.Load() {
			l.keeps.Store(request, true)
		}
		return result, err
	})
}
