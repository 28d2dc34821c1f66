package upgrade

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/internal/watch"
)

// Name is the capability's name in --controllers, logs and metrics.
const Name = "upgrade"

// Holder is the identity in the leases of nodes.
const Holder = "drover-upgrade"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-upgrade")

const (
	// retryStale is how soon to decide again after a guard failed. It doubles with each failure that follows, up to maxStale: a cache may lag.
	retryStale, maxStale = 100 * time.Millisecond, 5 * time.Second
	// catchUp is how soon to look again when a cache lags behind our own write; the event comes first as a rule.
	catchUp = time.Second
	// retryDenied is how soon to try again what the API server refused, or what only a person can put right.
	retryDenied = time.Minute
	// retryRule is how soon the Jobs of a rule are tried again that the API server would not take.
	retryRule = 5 * time.Minute
	// logsWithin is how long the last lines of a Job's log may take.
	logsWithin = 5 * time.Second
	// statusEvery bounds how often progress alone is written.
	statusEvery = time.Second
	// gathering is how long events of Nodes and pools are gathered into one pass.
	gathering = 10 * time.Millisecond
	// parallel is how many nodes are written to at once.
	parallel = 16
	// Back-off of failed requests.
	minBackoff, maxBackoff = 50 * time.Millisecond, 30 * time.Second
)

// VersionSource says where the version of a node is read.
type VersionSource = plan.VersionSource

// Options are the capability's settings.
type Options struct {
	// NodeVersion says where the version of a node is read.
	NodeVersion VersionSource
	// Namespaces are those whose MutexRunConfigs, MutexRules and MutexTargets count; empty for all.
	Namespaces []string
	// jobsVersion returns the newest resourceVersion that the cache of Jobs has seen; nil where that is not known.
	jobsVersion func() string
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
}

// Crew is what the controllers work with.
type Crew struct {
	// Cache has Nodes, MachineConfigPools, the metadata of MachineConfigs, the ClusterVersion, Jobs of runs, and the capability's own kinds.
	Cache client.Reader
	// Writer makes all writes.
	Writer client.Client
	// Live asks the API server itself.
	Live client.Reader
	// Recorder sends events.
	Recorder record.EventRecorder
	// Lease is the lease that everybody takes who disrupts a node, with the holder Holder.
	Lease *nodelease.Leases
	// Logs reads the last lines of what a Job has printed; nil reads none.
	Logs func(ctx context.Context, job *batchv1.Job) (string, error)
	// Metrics are the capability's.
	Metrics *Metrics
}

// Reconciler works on one MutexRunConfig at a time. Runs are looked at one after another, so that no two claim a pool at once.
type Reconciler struct {
	*Crew
	options  Options
	clock    clock.PassiveClock
	versions *expectations.Objects
	// stale counts the guards that failed one after another, by object.
	stale workqueue.TypedRateLimiter[types.NamespacedName]
	// owned are the Jobs that were created and deleted for each run, until the cache shows it.
	owned *expectations.Owned

	mu sync.Mutex
	// known is what is remembered of each run between passes; nothing of it is needed to decide.
	known map[types.NamespacedName]*memory
}

type memory struct {
	uid types.UID
	// begun is when this process saw the run first.
	begun time.Time
	// wrote is when the status was written last.
	wrote time.Time
	// since is when each node came into its phase; told are the Jobs whose failure an event has been sent for.
	since map[string]phaseSince
	told  map[types.UID]bool
	// drains is what was seen of the drains of nodes, delays is why nodes that were released are not upgraded yet.
	drains map[types.UID]*drainLook
	delays map[string]*delay
	// nodes is where each node stood when the status was written last, also those that it has no room for. Nil is before the first time.
	nodes map[string]v1alpha1.NodeStatus
	// ended tells that the finalizer has been removed; the cache may still show the object.
	ended bool
}

type phaseSince struct {
	phase v1alpha1.NodePhase
	at    time.Time
}

// NewReconciler makes a reconciler of runs.
func NewReconciler(crew *Crew, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	live := expectations.NewLive(crew.Live, crew.Writer.Scheme())
	return &Reconciler{
		Crew: crew, options: options, clock: options.Clock, versions: expectations.NewObjects(live, options.Clock),
		owned: expectations.NewOwned(crew.Cache, func() client.Object { return &batchv1.Job{} }, expectations.OwnedOptions{
			Version: options.jobsVersion, Live: live, Clock: options.Clock,
		}),
		known: map[types.NamespacedName]*memory{},
		stale: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryStale, maxStale),
	}
}

// Run runs the controllers of the three kinds until the context ends. The caches must be full.
func Run(ctx context.Context, cache ctrlcache.Cache, crew *Crew, options Options) error {
	var err error
	if options.jobsVersion, err = expectations.StoreVersion(ctx, cache, &batchv1.Job{}); err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	r := NewReconciler(crew, options)
	defer r.retire()
	rules, targets := &ruleReconciler{r}, &targetReconciler{r}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range []struct {
		name, key  string
		reconciler reconcile.Reconciler
		sources    []source.Source
	}{
		{Name, "mutexrunconfig", r, r.sources(cache)},
		{Name + "-rules", "mutexrule", rules, rules.sources(cache)},
		{Name + "-targets", "mutextarget", targets, targets.sources(cache)},
	} {
		again := true
		built, err := controller.NewUnmanaged(c.name, controller.Options{
			Reconciler: c.reconciler, MaxConcurrentReconciles: 1,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
			// The capability starts again, under the same names, when its CRDs come back.
			SkipNameValidation: &again,
			LogConstructor:     watch.LogConstructor(ctx, c.name, c.key),
		})
		if err != nil {
			return fmt.Errorf("making the controller %s: %w", c.name, err)
		}
		for _, source := range c.sources {
			if err := built.Watch(source); err != nil {
				return fmt.Errorf("controller %s: %w", c.name, err)
			}
		}
		group.Go(func() error { return built.Start(ctx) })
	}
	return group.Wait()
}

// retire drops the series of all runs when the controller stops.
func (r *Reconciler) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.known {
		r.Metrics.forget(key.Namespace, key.Name)
	}
}

// pass is one look at one run.
type pass struct {
	*Reconciler
	run    *v1alpha1.MutexRunConfig
	key    types.NamespacedName
	memory *memory
	now    time.Time
	scene  *plan.Scene
	found  observation
	// again is how soon to look once more without an event; zero for no need.
	again time.Duration
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile takes one run as far as it can be taken now.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	run := &v1alpha1.MutexRunConfig{}
	err := r.Cache.Get(ctx, request.NamespacedName, run)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading MutexRunConfig %s: %w", request, err)
	}
	if r.versions.Pending(ctx, run) {
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	p := &pass{Reconciler: r, run: run, key: request.NamespacedName, now: r.clock.Now()}
	p.memory = r.remember(p.key, run.UID, p.now)
	p.found = observation{conditions: conditions{}, phase: run.Status.Phase, message: run.Status.Message}
	if run.DeletionTimestamp != nil && (!paused.Is(run.Annotations) || r.options.refusal(run.Namespace) != "") {
		return p.result(ctx, p.leave(ctx))
	}
	failed := p.work(ctx)
	if p.scene == nil {
		return p.result(ctx, failed)
	}
	if status.Classify(failed) == status.Denied {
		p.found.message = failed.Error()
	}
	if err := p.writeStatus(ctx); err != nil {
		return p.result(ctx, err)
	}
	return p.result(ctx, failed)
}

// result turns what a pass ended with into what comes next.
func (p *pass) result(ctx context.Context, err error) (reconcile.Result, error) {
	class := status.Classify(err)
	if class == status.Stale || class == status.Gone {
		// The event is on its way that says what to decide on.
		return reconcile.Result{RequeueAfter: p.stale.When(p.key)}, nil
	}
	p.stale.Forget(p.key)
	switch class {
	case status.OK:
		return reconcile.Result{RequeueAfter: p.again}, nil
	case status.Denied:
		log.FromContext(ctx).Error(err, "the API server refuses it; trying again", "in", retryDenied.String())
		p.later(retryDenied)
		return reconcile.Result{RequeueAfter: p.again}, nil
	}
	return reconcile.Result{}, err
}

// later asks for another look, the soonest counts.
func (p *pass) later(wait time.Duration) {
	wait = max(wait, time.Millisecond)
	if p.again == 0 || wait < p.again {
		p.again = wait
	}
}

func (r *Reconciler) remember(key types.NamespacedName, uid types.UID, now time.Time) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.known[key]
	if m == nil || m.uid != uid {
		m = &memory{
			uid: uid, begun: now, since: map[string]phaseSince{}, told: map[types.UID]bool{},
		}
		r.known[key] = m
	}
	return m
}

// forget drops what is known of a run that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	m := r.known[key]
	delete(r.known, key)
	r.mu.Unlock()
	r.Metrics.forget(key.Namespace, key.Name)
	r.stale.Forget(key)
	if m != nil {
		r.versions.Forget(string(m.uid))
		r.owned.Forget(string(m.uid))
	}
}

// wrote notes the version that a write of ours has made.
func (r *Reconciler) wrote(object client.Object) {
	r.versions.Expect(string(object.GetUID()), expectations.Write{Version: object.GetResourceVersion()})
}

// behind tells whether the cache has yet to show our own last write of an object.
func (r *Reconciler) behind(ctx context.Context, object client.Object) bool {
	return r.versions.Pending(ctx, object)
}
