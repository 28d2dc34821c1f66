package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/watch"
)

// Name is the controller's name in logs and metrics.
const Name = "healthcheck"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-healthcheck")

const (
	// retryStale is how soon to decide again after a guard failed. It doubles with each failure that follows, up to maxStale: a cache may lag.
	retryStale, maxStale = 100 * time.Millisecond, 5 * time.Second
	// catchUp is how soon to look again when a cache lags behind our own write; the event comes first as a rule.
	catchUp = time.Second
	// retryLease is how soon to ask again for a lease that somebody else holds.
	retryLease = 30 * time.Second
	// retryQuorum is how soon to ask again whether the control plane can spare a node.
	retryQuorum = 15 * time.Second
	// retryDenied is how soon to try again what the API server refused, and what only a person can put right.
	retryDenied = time.Minute
	// longest bounds how long nobody looks at a MachineHealthCheck that waits for a moment.
	longest = time.Hour
	// Back-off of failed requests.
	minBackoff, maxBackoff = 50 * time.Millisecond, time.Minute
)

// Guard says whether the control plane can spare a node.
type Guard interface {
	// Applies tells whether the node is one of the control plane that is guarded on this cluster.
	Applies(node *corev1.Node) bool
	// MissingNode returns what to check for a control-plane Machine whose Node is gone; nil for other Machines.
	MissingNode(machine *machinev1beta1.Machine) *corev1.Node
	// Check says why the node cannot be spared now; empty when it can. It looks at the API server itself, not at a cache.
	Check(ctx context.Context, node *corev1.Node) (denial string, err error)
	// Lock lets one caller at a time, of all capabilities, check and then disrupt a node. What is done under the lock has the context that it
	// returns, which ends after a while.
	Lock(ctx context.Context) (bounded context.Context, unlock func())
}

// Options are the settings.
type Options struct {
	// Workers is how many MachineHealthChecks are looked at at once; below one counts as one.
	Workers int
	// MaxInFlight is how many remediations of one MachineHealthCheck may be begun before the cache shows them; below one counts as one.
	MaxInFlight int
	// Live reads remediation templates and requests, and makes sure that a Node is gone. It has to know any kind; nil is the cache.
	Live client.Reader
	// Guard protects the control plane; nil protects nothing.
	Guard Guard
	// Leases takes the lease of a node before its Machine is deleted, with the holder that the deletion of Machines has; nil takes none.
	Leases *nodelease.Leases
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
}

// Reconciler works on one MachineHealthCheck at a time.
type Reconciler struct {
	reader   client.Reader
	writer   client.Client
	recorder record.EventRecorder
	metrics  *Metrics
	options  Options
	clock    clock.PassiveClock
	versions *expectations.Objects
	// stale counts the guards that failed one after another, by object.
	stale workqueue.TypedRateLimiter[types.NamespacedName]
	// deletions are the Machines that Drover has deleted, by UID, until the cache shows it. They count for every MachineHealthCheck.
	deletions *expectations.Owned
	owners    *owners
	// began is when the process began: what was there before is no news.
	began time.Time

	mu    sync.Mutex
	known map[types.NamespacedName]*memory
}

// NewReconciler makes a reconciler that reads from a cache with the indexes of Index. The writer has to know the kinds of remediation
// requests, too.
func NewReconciler(
	cache client.Reader, writer client.Client, recorder record.EventRecorder, metrics *Metrics, options Options,
) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	var live *expectations.Live
	if options.Live != nil {
		live = expectations.NewLive(options.Live, writer.Scheme())
	} else {
		options.Live = cache
	}
	options.MaxInFlight = max(options.MaxInFlight, 1)
	return &Reconciler{
		reader: cache, writer: writer, recorder: recorder, metrics: metrics, options: options, clock: options.Clock,
		versions: expectations.NewObjects(live, options.Clock), owners: newOwners(), began: options.Clock.Now(),
		deletions: expectations.NewOwned(cache, func() client.Object { return &machinev1beta1.Machine{} }, expectations.OwnedOptions{
			Live: live, Clock: options.Clock,
		}),
		known: map[types.NamespacedName]*memory{},
		stale: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryStale, maxStale),
	}
}

// Run runs the controller until the context ends. The caches must be full. What it shows per object ends with it.
func Run(
	ctx context.Context, cache ctrlcache.Cache, writer client.Client, recorder record.EventRecorder, metrics *Metrics, options Options,
) error {
	defer metrics.reset()
	r := NewReconciler(cache, writer, recorder, metrics, options)
	again := true
	built, err := controller.NewUnmanaged(Name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: max(options.Workers, 1),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		// The capability starts again, under the same name, when its CRDs come back.
		SkipNameValidation: &again,
		LogConstructor:     watch.LogConstructor(ctx, Name, "machinehealthcheck"),
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

// pass is one look at one MachineHealthCheck.
type pass struct {
	*Reconciler
	check  *machinev1beta1.MachineHealthCheck
	key    types.NamespacedName
	memory *memory
	now    time.Time

	in       input
	decision decision
	// selectorError says why the selector cannot be read.
	selectorError error
	rivals        rivals
	outside       outside
	// blocked is what came into the way of remedies when they were to be begun.
	blocked []obstacle
	// tried are the Machines whose remedy was to be begun, done is how many were.
	tried map[types.UID]bool
	done  int
	// conflicted reports that a guard failed: the cache does not show what another writer has changed.
	conflicted bool
	// again is how soon to look once more without an event; zero for no need.
	again time.Duration
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile looks at the Machines of one MachineHealthCheck and begins as many remediations as there is room for.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	check := &machinev1beta1.MachineHealthCheck{}
	err := r.reader.Get(ctx, request.NamespacedName, check)
	switch {
	case apierrors.IsNotFound(err), err == nil && check.DeletionTimestamp != nil:
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading MachineHealthCheck %s: %w", request, err)
	}
	if r.versions.Pending(ctx, check) {
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	p := &pass{Reconciler: r, check: check, key: request.NamespacedName, now: r.clock.Now(), tried: map[types.UID]bool{}}
	p.memory = r.remember(p.key, check.UID)
	if paused.By(check) != "" {
		return p.result(nil, p.writeStatus(ctx, p.paused()))
	}
	return p.run(ctx)
}

// run gathers, decides and acts; the status comes last. What fails for one Machine is no reason not to go on with the others.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	if err := p.gather(ctx); err != nil {
		return reconcile.Result{}, err
	}
	lookup := p.lookOutside(ctx)
	p.decide()
	p.noteFindings()
	trouble := errors.Join(lookup, p.remediate(ctx), p.cleanUp(ctx))
	p.returnLeases(ctx)
	p.wake()
	p.noteObstacles()
	return p.result(trouble, p.writeStatus(ctx, p.status()))
}

// decide makes the decision anew from what was gathered.
func (p *pass) decide() {
	p.in.rounds = p.owners.known(p.in.targets)
	p.decision = decide(&p.in)
	p.owners.recovered(p.decision.recovered)
}

// wake asks for a look at the next moment at which anything may change.
func (p *pass) wake() {
	if !p.decision.wake.IsZero() {
		p.later(min(p.decision.wake.Sub(p.now), longest))
	}
	p.owners.expire(p.now)
}

// result turns what a pass ended with into what comes next: trouble that backs off, and the answer to the write of the status.
func (p *pass) result(trouble, written error) (reconcile.Result, error) {
	if trouble != nil {
		return reconcile.Result{}, errors.Join(trouble, written)
	}
	switch status.Classify(written) {
	case status.OK:
	case status.Stale, status.Gone:
		// The event is on its way that says what to decide on.
		p.conflicted = true
	default:
		return reconcile.Result{}, written
	}
	if p.conflicted {
		p.later(p.Reconciler.stale.When(p.key))
	} else {
		p.Reconciler.stale.Forget(p.key)
	}
	return reconcile.Result{RequeueAfter: p.again}, nil
}

// later asks for another look, the soonest counts.
func (p *pass) later(wait time.Duration) {
	wait = max(wait, time.Millisecond)
	if p.again == 0 || wait < p.again {
		p.again = wait
	}
}

func (r *Reconciler) remember(key types.NamespacedName, uid types.UID) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.known[key]
	if m == nil || m.uid != uid {
		m = newMemory(uid)
		r.known[key] = m
	}
	return m
}

// forget drops what is known of a MachineHealthCheck that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.known[key]; m != nil {
		r.versions.Forget(string(m.uid))
	}
	delete(r.known, key)
	r.stale.Forget(key)
	r.metrics.forget(key)
}
