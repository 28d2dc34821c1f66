// Package controller holds what all controllers of Drover share: how a controller is built and run, when an object is reconciled again, and
// the state that is kept for each object between reconciliations.
package controller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/internal/watch"
)

// minBackoff is the first delay after a failed reconciliation, defaultMaxBackoff the longest where Options do not say.
const minBackoff, defaultMaxBackoff = 50 * time.Millisecond, time.Minute

// Options configure a controller.
type Options struct {
	// Name is the controller's name in logs and metrics.
	Name string
	// LogKey is the key of the reconciled object in logs.
	LogKey string
	// Workers is how many objects are reconciled at once; less than one counts as one.
	Workers int
	// MaxBackoff is the longest delay after an object failed repeatedly; zero is one minute.
	MaxBackoff time.Duration
}

// Run runs a controller until the context ends. The caches must be synced. A controller may be run again under the same name: a capability
// stops when its CRDs are deleted, and starts when they are back.
func Run(ctx context.Context, reconciler reconcile.Reconciler, options Options, sources ...source.Source) error {
	if options.MaxBackoff == 0 {
		options.MaxBackoff = defaultMaxBackoff
	}
	skipNameValidation := true
	limiter := &limiter{TypedRateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, options.MaxBackoff)}
	built, err := controller.NewUnmanaged(options.Name, controller.Options{
		Reconciler:              limiter.reconciler(waitForCorrection(reconciler)),
		MaxConcurrentReconciles: max(options.Workers, 1),
		RateLimiter:             limiter,
		SkipNameValidation:      &skipNameValidation,
		LogConstructor:          watch.LogConstructor(ctx, options.Name, options.LogKey),
	})
	if err != nil {
		return fmt.Errorf("building the controller %s: %w", options.Name, err)
	}
	for _, source := range sources {
		if err := built.Watch(source); err != nil {
			return fmt.Errorf("controller %s: %w", options.Name, err)
		}
	}
	return built.Start(ctx)
}

// waitForCorrection has a reconciler wait for a user when it needs an object that cannot be decoded, whose next event reconciles again what
// depends on it. The object is reported once for all: see undecodable.Tracker.
func waitForCorrection(reconciler reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := reconciler.Reconcile(ctx, request)
		if undecodable.Is(err) {
			log.FromContext(ctx).V(1).Info("waiting for an object to be corrected", "why", err.Error())
			requeue := Waiting(RetryDenied).Requeue
			if result.RequeueAfter > 0 {
				requeue.In(result.RequeueAfter)
			}
			return reconcile.Result{RequeueAfter: requeue.Delay()}, nil
		}
		return result, err
	})
}
