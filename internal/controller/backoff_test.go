package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/undecodable"
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

// TestLimiter_DelayBesideAnError: a part of a reconciliation that asks for a delay does not wait for the backoff of another part, which fails.
func TestLimiter_DelayBesideAnError(t *testing.T) {
	limiter := &limiter{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Minute, time.Hour)}
	request, delay := reconcile.Request{NamespacedName: key}, time.Duration(0)
	reconciler := limiter.reconciler(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: delay}, errors.New("it fails")
	}))
	for _, step := range []struct{ delay, want time.Duration }{
		{0, time.Minute}, {time.Second, time.Second}, {0, 4 * time.Minute}, {time.Hour, 8 * time.Minute},
	} {
		delay = step.delay
		if result, err := reconciler.Reconcile(t.Context(), request); err == nil || result.RequeueAfter != 0 {
			t.Errorf("controller-runtime gets %v, %v", result, err)
		}
		if got := limiter.When(request); got != step.want {
			t.Errorf("with a delay of %s it is reconciled again in %s, want %s", step.delay, got, step.want)
		}
	}
}

// TestWaitForCorrection: an object that cannot be decoded is waited for, and what the reconciliation has asked for beside it comes before.
func TestWaitForCorrection(t *testing.T) {
	var asked time.Duration
	reconciler := waitForCorrection(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{RequeueAfter: asked}, &undecodable.Error{Kind: "Machine", Name: "m"}
	}))
	for delay, want := range map[time.Duration]time.Duration{0: RetryDenied, time.Second: time.Second, time.Hour: RetryDenied} {
		asked = delay
		if result, err := reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil || result.RequeueAfter != want {
			t.Errorf("with a delay of %s: again in %s, want %s: %v", delay, result.RequeueAfter, want, err)
		}
	}
}
