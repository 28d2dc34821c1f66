package machineset

import (
	"context"
	"fmt"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/watch"
)

// Name is the controller's name in logs and metrics.
const Name = "machineset"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-machineset")

// DefaultParallel is how many requests a MachineSet has under way at once where Options do not say.
const DefaultParallel = 50

const (
	// catchUp is how soon to look again when a cache lags behind our own write. The event that ends the lag comes first as a rule.
	catchUp = time.Second
	// retryStale is how soon to decide again after a guard failed. It doubles with each failure that follows, up to maxStale: a cache may lag.
	retryStale, maxStale = 100 * time.Millisecond, 5 * time.Second
	// retryDenied is how soon to try again what the API server refused.
	retryDenied = time.Minute
	// Back-off of failed requests.
	minBackoff, maxBackoff = 50 * time.Millisecond, time.Minute
)

// Options are the controller's settings.
type Options struct {
	// Workers is how many MachineSets are worked on at once; below one counts as one.
	Workers int
	// Parallel is how many requests a MachineSet has under way at once; below one counts as DefaultParallel.
	Parallel int
	// ReplaceFailed has Machines in the phase Failed deleted, so that others take their place: one at a time, with a back-off.
	ReplaceFailed bool
	// Adopt completes a Machine that is about to be created; nil for nothing to complete.
	Adopt func(*machinev1beta1.MachineSet, *machinev1beta1.Machine)
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
	// Suffix makes the end of a Machine's name; nil makes one as the API server does. A test that is to be repeated has its own.
	Suffix func() string
}

// Reconciler works on one MachineSet at a time.
type Reconciler struct {
	cache    client.Reader
	live     client.Reader
	writer   client.Client
	options  Options
	clock    clock.PassiveClock
	metrics  *Metrics
	notices  notices
	versions *expectations.Objects
	owned    *expectations.Owned
	// stale counts the passes one after another in which a guard failed, by MachineSet.
	stale workqueue.TypedRateLimiter[types.NamespacedName]

	mu    sync.Mutex
	known map[types.NamespacedName]*memory
}

// NewReconciler makes a reconciler that reads from a cache with the indexes of Index, asks the API server itself through live where a
// cache is not good enough, and writes with a client. Version tells the newest resourceVersion that the cache of Machines has seen;
// nil where that is not known.
func NewReconciler(
	cache, live client.Reader, version func() string, writer client.Client, recorder record.EventRecorder, metrics *Metrics, options Options,
) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Parallel < 1 {
		options.Parallel = DefaultParallel
	}
	if options.Suffix == nil {
		options.Suffix = func() string { return rand.String(suffixLength) }
	}
	current := expectations.NewLive(live, writer.Scheme())
	return &Reconciler{
		cache: cache, live: live, writer: writer, options: options, clock: options.Clock, metrics: metrics, notices: notices{recorder},
		versions: expectations.NewObjects(current, options.Clock),
		owned: expectations.NewOwned(cache, func() client.Object { return &machinev1beta1.Machine{} }, expectations.OwnedOptions{
			Version: version, Live: current, Clock: options.Clock,
		}),
		stale: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryStale, maxStale),
		known: map[types.NamespacedName]*memory{},
	}
}

// Run runs the controller until the context ends. The caches must be full. Live asks the API server itself. What the controller knows
// and shows per object ends with it.
func Run(
	ctx context.Context, cache ctrlcache.Cache, live client.Reader, writer client.Client, recorder record.EventRecorder, metrics *Metrics,
	options Options,
) error {
	defer metrics.reset()
	version, err := expectations.StoreVersion(ctx, cache, &machinev1beta1.Machine{})
	if err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	r := NewReconciler(cache, live, version, writer, recorder, metrics, options)
	again := true
	built, err := controller.NewUnmanaged(Name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: max(options.Workers, 1),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		// The capability starts again, under the same name, when its CRDs come back.
		SkipNameValidation: &again,
		LogConstructor:     watch.LogConstructor(ctx, Name, "machineset"),
	})
	if err != nil {
		return fmt.Errorf("making the controller %s: %w", Name, err)
	}
	for _, source := range r.sources(cache) {
		if err := built.Watch(source); err != nil {
			return fmt.Errorf("controller %s: %w", Name, err)
		}
	}
	return built.Start(ctx)
}

// pass is one look at one MachineSet. The objects are the cache's own and must not be changed.
type pass struct {
	*Reconciler
	key      types.NamespacedName
	set      *machinev1beta1.MachineSet
	memory   *memory
	now      time.Time
	machines []*machinev1beta1.Machine
	decision plan.Decision
	// missing are members that do not count after this pass: they have been deleted, or could not be adopted.
	missing map[types.UID]bool
	// created are the names of the Machines that the pass has created.
	created []string
	// stale reports that a guard failed: the cache does not show what another writer has changed.
	stale bool
	// again is how soon to look once more without an event; zero for no need.
	again time.Duration
	// err is what is to be tried again with back-off.
	err error
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile gives one MachineSet the Machines that it asks for, as far as that can be done now.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &machinev1beta1.MachineSet{}
	err := r.cache.Get(ctx, request.NamespacedName, set)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading MachineSet %s: %w", request.NamespacedName, err)
	}
	m := r.remember(request.NamespacedName, set.UID)
	if r.versions.Pending(ctx, set) {
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	r.metrics.observe(request.NamespacedName, set, &set.Status)
	if set.DeletionTimestamp != nil {
		// Its Machines go, or stay, as the one who deletes it has said. That is for the garbage collector to do.
		return reconcile.Result{}, nil
	}
	p := &pass{Reconciler: r, key: request.NamespacedName, set: set, memory: m, now: r.clock.Now(), missing: map[types.UID]bool{}}
	p.work(ctx)
	if p.stale {
		p.later(r.stale.When(p.key))
	} else {
		r.stale.Forget(p.key)
	}
	if p.err != nil {
		return reconcile.Result{}, p.err
	}
	return reconcile.Result{RequeueAfter: p.again}, nil
}

func (p *pass) work(ctx context.Context) {
	switch plan.AuthorityOf(p.set) {
	case plan.Unclaimed:
		p.claim(ctx)
	case plan.Elsewhere:
		p.standBack(ctx)
	case plan.Unknown:
		p.unknownAuthority(ctx)
	case plan.Ours:
		if p.pending(ctx) || !p.gather(ctx) {
			return
		}
		if p.own(ctx) && !p.scale(ctx) {
			return
		}
		p.report(ctx)
	}
}

// pending reports whether the cache of Machines does not show all that was done for the MachineSet. To count now would be to do it again.
func (p *pass) pending(ctx context.Context) bool {
	pending, err := p.owned.Pending(ctx, string(p.set.UID))
	if err != nil {
		p.err = err
		return true
	}
	if pending {
		p.later(catchUp)
	}
	return pending
}

// later asks for another look; the soonest counts.
func (p *pass) later(wait time.Duration) {
	wait = max(wait, time.Millisecond)
	if p.again == 0 || wait < p.again {
		p.again = wait
	}
}
