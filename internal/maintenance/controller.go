package maintenance

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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

	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/watch"
)

// Holder is the identity in the leases of nodes, which is the incumbent's.
const Holder = "node-maintenance"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-maintenance")

const (
	// retryStale is how soon to decide again after a guard failed. It doubles with each failure that follows, up to maxStale: a cache may lag.
	retryStale, maxStale = 100 * time.Millisecond, 5 * time.Second
	// retryLease is how soon to ask again for a lease that somebody else holds, and how far apart failures are counted.
	retryLease = time.Minute
	// retryDenied is how soon to try again what the API server refused.
	retryDenied = 30 * time.Second
	// retryQuorum is how soon to ask again whether the control plane can spare a node.
	retryQuorum = 5 * time.Second
	// blockedPatience is how long a drain may be blocked by what may pass by itself before an event tells of it.
	blockedPatience = 15 * time.Second
	// statusEvery bounds how often progress alone is written.
	statusEvery = time.Second
	// maxLeaseErrors is how many failures in a row the incumbent takes before it gives the node back.
	maxLeaseErrors = 3
	// Back-off of failed requests.
	minBackoff, maxBackoff = 50 * time.Millisecond, 30 * time.Second
)

// UncordonPolicy says what happens when somebody else uncordons a node in maintenance.
type UncordonPolicy string

// The policies.
const (
	// Repair cordons it again, with an event. The zero value counts as Repair.
	Repair UncordonPolicy = "Repair"
	// Report leaves it, stops the drain, and says so in the condition Cordoned.
	Report UncordonPolicy = "Report"
)

// Options are the capability's settings.
type Options struct {
	// Workers is how many NodeMaintenances are looked at at once; below one counts as one.
	Workers int
	// Uncordon says what happens when somebody else uncordons a node in maintenance.
	Uncordon UncordonPolicy
	// LeaseLoss is how long a lease may be somebody else's before a maintenance that has not succeeded gives the node back.
	LeaseLoss time.Duration
	// Limits are what an administrator has switched off.
	Limits Limits
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
}

// Guard says whether the control plane can spare a node.
type Guard interface {
	// Applies tells whether the node is one of the control plane that is guarded on this cluster.
	Applies(node *corev1.Node) bool
	// Check says why the node cannot be spared now; empty when it can. It looks at the API server itself, not at a cache.
	Check(ctx context.Context, node *corev1.Node) (denial string, err error)
	// Lock lets one caller at a time, of all capabilities, check and then disrupt a node. What is done under the lock has the context that it
	// returns, which ends after a while.
	Lock(ctx context.Context) (bounded context.Context, unlock func())
}

// Crew is what the controllers of both groups share.
type Crew struct {
	// Cache has the indexes of Index and of the drain engine.
	Cache client.Reader
	// Writer makes all writes.
	Writer client.Client
	// APIReader asks the API server itself whether the owner of a cordon record still exists.
	APIReader client.Reader
	// Live asks the API server about own writes that the cache does not show for long; nil asks nobody, and forgets them after a minute.
	Live *expectations.Live
	// Nodes are the own writes of Nodes that the cache may not show yet, of all groups.
	Nodes *expectations.Objects
	// Recorder sends events.
	Recorder record.EventRecorder
	// Engine drains.
	Engine *engine.Engine
	// Lease is the lease that everybody takes.
	Lease *nodelease.Leases
	// OwnLease is the second one that the older incumbent keeps; only for that group.
	OwnLease *nodelease.Leases
	// Registry knows the NodeMaintenances of both groups.
	Registry *Registry
	// Guard protects the control plane.
	Guard Guard
	// Metrics are the capability's.
	Metrics *Metrics
}

// Reconciler works on one NodeMaintenance at a time.
type Reconciler struct {
	*Crew
	flavour  *Flavour
	options  Options
	clock    clock.PassiveClock
	versions *expectations.Objects
	// stale counts the guards that failed one after another, by object.
	stale workqueue.TypedRateLimiter[types.NamespacedName]

	mu sync.Mutex
	// known is what is remembered of each NodeMaintenance between passes; nothing of it is needed to decide.
	known map[string]*memory
}

type memory struct {
	uid  types.UID
	node string
	// wrote is when the status was written last.
	wrote time.Time
	// counted is when a failure of the lease was counted last.
	counted time.Time
	// drains tells that the engine has been told to drain the node for this one, and not for another that waits for it.
	drains bool
	// ended tells that the finalizer has been removed; the cache may still show the object.
	ended bool
	// blocked is since when the drain has been blocked, zero when it is not; told is the reason that an event has been sent for.
	blocked time.Time
	told    string
}

// NewReconciler makes a reconciler for one group.
func NewReconciler(flavour *Flavour, crew *Crew, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Reconciler{
		Crew: crew, flavour: flavour, options: options, clock: options.Clock, versions: expectations.NewObjects(crew.Live, options.Clock),
		known: map[string]*memory{}, stale: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryStale, maxStale),
	}
}

// Run runs the controller of one group until the context ends. The caches must be full.
func Run(ctx context.Context, cache ctrlcache.Cache, flavour *Flavour, crew *Crew, options Options) error {
	r := NewReconciler(flavour, crew, options)
	defer crew.Registry.enter(flavour)()
	defer r.retire()
	again := true
	built, err := controller.NewUnmanaged(flavour.Name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: max(options.Workers, 1),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		// The capability starts again, under the same name, when its CRD comes back.
		SkipNameValidation: &again,
		LogConstructor:     watch.LogConstructor(ctx, flavour.Name, "nodemaintenance"),
	})
	if err != nil {
		return fmt.Errorf("making the controller %s: %w", flavour.Name, err)
	}
	for _, source := range r.sources(cache) {
		if err := built.Watch(source); err != nil {
			return fmt.Errorf("controller %s: %w", flavour.Name, err)
		}
	}
	return built.Start(ctx)
}

// retire ends what is under way when the controller stops.
func (r *Reconciler) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, m := range r.known {
		r.withdraw(m)
		r.Metrics.forget(r.flavour, name)
	}
}

// pass is one look at one NodeMaintenance.
type pass struct {
	*Reconciler
	*view
	memory *memory
	now    time.Time
	found  observation
	// again is how soon to look once more without an event; zero for no need.
	again time.Duration
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile takes one maintenance as far as it can be taken now.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := r.flavour.fresh()
	err := r.Cache.Get(ctx, request.NamespacedName, object)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(request.Name)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading NodeMaintenance %s: %w", request.Name, err)
	}
	if r.versions.Pending(ctx, object) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	p := &pass{Reconciler: r, view: r.flavour.view(object), now: r.clock.Now()}
	p.memory = r.remember(p.GetName(), p.GetUID(), p.spec.NodeName)
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("node", p.spec.NodeName))
	switch {
	case p.memory.ended:
		return reconcile.Result{}, nil
	case paused.Is(p.GetAnnotations()):
		return p.result(p.pause(ctx))
	case p.GetDeletionTimestamp() != nil:
		return p.result(p.end(ctx))
	}
	return p.result(p.maintain(ctx))
}

// result turns what a pass ended with into what comes next.
func (p *pass) result(err error) (reconcile.Result, error) {
	key := types.NamespacedName{Name: p.GetName()}
	switch status.Classify(err) {
	case status.Stale, status.Gone:
		// The event is on its way that says what to decide on.
		return reconcile.Result{RequeueAfter: p.stale.When(key)}, nil
	}
	p.stale.Forget(key)
	if err != nil {
		return reconcile.Result{}, err
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

func (r *Reconciler) remember(name string, uid types.UID, node string) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.known[name]
	if m == nil || m.uid != uid {
		m = &memory{uid: uid, node: node}
		r.known[name] = m
	}
	return m
}

// forget drops what is known of a NodeMaintenance that is gone.
func (r *Reconciler) forget(name string) {
	r.mu.Lock()
	m := r.known[name]
	delete(r.known, name)
	r.mu.Unlock()
	r.Metrics.forget(r.flavour, name)
	r.stale.Forget(types.NamespacedName{Name: name})
	if m != nil {
		r.versions.Forget(string(m.uid))
		r.withdraw(m)
	}
}

// withdraw ends a drain, if it is this one's.
func (r *Reconciler) withdraw(m *memory) {
	if m.drains {
		m.drains = false
		r.Engine.Withdraw(m.node)
	}
}

// by is the holder's name in the record on the node.
func (v *view) by() string { return recordPrefix + string(v.GetUID()) }

const recordPrefix = "NodeMaintenance/"
