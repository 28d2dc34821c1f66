package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestKeepBackoff: an object that fails, asks to wait, and fails again is tried less and less often, until it succeeds.
func TestKeepBackoff(t *testing.T) {
	limiter := &limiter{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, time.Minute)}
	request, outcome := reconcile.Request{NamespacedName: key}, ""
	reconciler := limiter.reconciler(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		switch outcome {
		case "waits":
			KeepBackoff(ctx)
			return reconcile.Result{RequeueAfter: time.Second}, nil
		case "fails":
			return reconcile.Result{}, errors.New("it fails")
		}
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	}))
	for i, step := range []struct {
		outcome  string
		failures int
	}{{"waits", 0}, {"fails", 1}, {"waits", 1}, {"fails", 2}, {"fails", 3}, {"waits", 3}, {"waits", 3}, {"succeeds", 0}, {"fails", 1}, {"succeeds", 0}} {
		// What the queue of controller-runtime does with a result.
		if outcome = step.outcome; outcome == "fails" {
			if _, err := reconciler.Reconcile(t.Context(), request); err == nil {
				t.Fatal("there is no error")
			}
			limiter.When(request)
		} else if _, err := reconciler.Reconcile(t.Context(), request); err == nil {
			limiter.Forget(request)
		}
		if got := limiter.NumRequeues(request); got != step.failures {
			t.Errorf("step %d: %d failures count, want %d", i, got, step.failures)
		}
	}
}
