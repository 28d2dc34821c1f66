package machine

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

	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/watch"
	"github.com/drover-io/drover/provider"
)

// Name is the controller's name in logs and metrics.
const Name = "machine"

// Holder is the identity in the leases of nodes, of everything that Drover does for Machines.
const Holder = "drover-machines"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-machine")

const (
	// retryStale is how soon to decide again after a guard failed. It doubles with each failure that follows, up to maxStale: a cache may lag.
	retryStale, maxStale = 100 * time.Millisecond, 5 * time.Second
	// catchUp is how soon to look again when a cache lags behind our own write; the event comes first as a rule.
	catchUp = time.Second
	// settleNewborn is how long an instance that runs from the start may take to register its Node before the status is written without it;
	// settleInstance how long one that was just ended may take to go before it is asked again, and the status says so.
	settleNewborn, settleInstance = 500 * time.Millisecond, 5 * time.Second
	// retryInstance is how soon to look at an instance again that is on its way, or on its way out.
	retryInstance = 30 * time.Second
	// retryDenied is how soon to try again what the API server refused, or what only a person can put right.
	retryDenied = time.Minute
	// retryQuorum is how soon to ask again whether the control plane can spare a node.
	retryQuorum = 5 * time.Second
	// Back-off of failed requests and of what the provider refuses.
	minBackoff, maxBackoff = 50 * time.Millisecond, 5 * time.Minute
)

// Options are the settings.
type Options struct {
	// Workers is how many Machines are worked on at once. A slow provider holds one for as long as its call takes; below one counts as one.
	Workers int
	// InstanceCheck is how often the instance of a Machine that runs is looked at; zero is 10 minutes.
	InstanceCheck time.Duration
	// ProviderTimeout bounds one call of a provider; zero is 10 minutes.
	ProviderTimeout time.Duration
	// DrainTimeout is how long after the deletion of a Machine its drain is ended without the rest; zero is without end. The Machine's
	// annotation AnnotationDrainTimeout overrules it.
	DrainTimeout time.Duration
	// VolumeDetachTimeout is how long the detaching of volumes is waited for when the pods have gone; zero is 5 minutes, less is not at all.
	VolumeDetachTimeout time.Duration
	// NodeDeletionTimeout is how long the deletion of the Node is tried after it has failed once; zero is without end.
	NodeDeletionTimeout time.Duration
	// Cluster is the value of the label with the cluster's name that new Machines get which have none; empty for no label.
	Cluster string
	// AdoptionNamespaces are those whose Machines may take over a Node that was there before the Machine; "*" stands for all. Without any, none may.
	AdoptionNamespaces []string
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
}

// Guard says whether the control plane can spare a node.
type Guard interface {
	// Applies tells whether the node is one of the control plane that is guarded on this cluster.
	Applies(node *corev1.Node) bool
	// MissingNode returns what to check for a control-plane Machine whose Node is gone; nil for other Machines.
	MissingNode(machine *machinev1beta1.Machine) *corev1.Node
	// Check says why the node cannot be spared now; empty when it can.
	Check(ctx context.Context, node *corev1.Node) (denial string, err error)
	// Lock lets one caller at a time, of all capabilities, check and then disrupt a node. What is done under the lock has the context that it
	// returns, which ends after a while.
	Lock(ctx context.Context) (bounded context.Context, unlock func())
}

// Crew is what the controller works with.
type Crew struct {
	// Cache has the indexes of Index, of nodelink and of the drain engine.
	Cache client.Reader
	// Writer makes all writes.
	Writer client.Client
	// Live asks the API server itself, where the caches cannot be trusted yet.
	Live client.Reader
	// Recorder sends events.
	Recorder record.EventRecorder
	// Actuators are the providers'.
	Actuators *Actuators
	// Engine drains.
	Engine *engine.Engine
	// Lease is the lease that everybody takes who disrupts a node, with the holder Holder.
	Lease *nodelease.Leases
	// Guard protects the control plane; nil protects nothing.
	Guard Guard
	// Metrics are the controller's.
	Metrics *Metrics
}

// Reconciler works on one Machine at a time.
type Reconciler struct {
	*Crew
	finder   nodelink.Finder
	options  Options
	clock    clock.PassiveClock
	versions *expectations.Objects
	// stale counts the guards that failed one after another, by object.
	stale workqueue.TypedRateLimiter[types.NamespacedName]

	mu sync.Mutex
	// known is what is remembered of each Machine between passes; nothing of it is needed to decide.
	known map[types.NamespacedName]*memory
}

// memory belongs to the one worker that has the Machine.
type memory struct {
	uid types.UID
	// looked is when the instance was looked at last, at which generation of the Machine; again when the provider wants to be asked.
	looked, again time.Time
	generation    int64
	// newborn is an instance that was recorded a moment ago and is not in the status yet; nil for none.
	newborn *provider.Instance
	// instance is the last one that the provider has returned for the Machine; nil before that. It outlives the instance itself.
	instance *provider.Instance
	// drained is how the drain ended, once it has.
	drained step
	// ended is when the provider was first asked to end the instance; finished tells that nothing is left to do.
	ended    time.Time
	finished bool
	// parting is when the Node could not be deleted for the first time; zero for never.
	parting time.Time
	// drains names the node that the engine has been told to drain.
	drains string
	// told is the last thing of each kind that an event has been sent for.
	told map[string]string
	// counted is what the metrics know of it.
	counted series
}

// NewReconciler makes a reconciler.
func NewReconciler(crew *Crew, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	for setting, otherwise := range map[*time.Duration]time.Duration{
		&options.InstanceCheck: 10 * time.Minute, &options.ProviderTimeout: 10 * time.Minute, &options.VolumeDetachTimeout: 5 * time.Minute,
	} {
		if *setting == 0 {
			*setting = otherwise
		}
	}
	return &Reconciler{
		Crew: crew, finder: nodelink.Finder{Reader: crew.Cache}, options: options, clock: options.Clock,
		versions: expectations.NewObjects(expectations.NewLive(crew.Live, crew.Writer.Scheme()), options.Clock),
		known:    map[types.NamespacedName]*memory{},
		stale:    workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryStale, maxStale),
	}
}

// Run runs the controller until the context ends. The caches must be full.
func Run(ctx context.Context, cache ctrlcache.Cache, crew *Crew, options Options) error {
	r := NewReconciler(crew, options)
	defer r.retire()
	again := true
	built, err := controller.NewUnmanaged(Name, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: max(options.Workers, 1),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
		// The capability starts again, under the same name, when its CRDs come back.
		SkipNameValidation: &again,
		LogConstructor:     watch.LogConstructor(ctx, Name, "machine"),
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

// retire ends what is under way when the controller stops.
func (r *Reconciler) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, m := range r.known {
		r.withdraw(m)
		r.Metrics.forget(key, m.counted)
	}
}

// pass is one look at one Machine.
type pass struct {
	*Reconciler
	machine *machinev1beta1.Machine
	key     types.NamespacedName
	memory  *memory
	now     time.Time
	found   observation
	// leased tells that the node's lease has been looked at in this pass.
	leased bool
	// ending tells that the instance has just been ended, and that the status can wait for what comes of it.
	ending bool
	// scheduled tells that the provider has said when to ask it again, so that the controller's own pace does not count.
	scheduled bool
	// again is how soon to look once more without an event; zero for no need.
	again time.Duration
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile takes one Machine as far as it can be taken now.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	machine := &machinev1beta1.Machine{}
	err := r.Cache.Get(ctx, request.NamespacedName, machine)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(request.NamespacedName)
		again, err := r.releaseOrphans(ctx, request.NamespacedName, nil)
		return r.result(request.NamespacedName, again, err)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading Machine %s: %w", request, err)
	}
	if r.versions.Pending(ctx, machine) {
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	p := &pass{Reconciler: r, machine: machine, key: request.NamespacedName, now: r.clock.Now()}
	p.memory = r.remember(p.key, machine.UID)
	p.found = observe(machine)
	notReleased := p.releaseFormer(ctx)
	err = p.run(ctx)
	if err != nil {
		// What was found out about the instance has not been written, perhaps.
		p.memory.looked = time.Time{}
	}
	return p.result(p.key, p.again, errors.Join(err, notReleased))
}

// run chooses between a Machine's life and its end.
func (p *pass) run(ctx context.Context) error {
	if ours, err := p.authority(ctx); err != nil || !ours {
		return err
	}
	switch {
	case paused.By(p.machine) != "":
		p.withdraw(p.memory)
		p.found.ready = step{reason: reasonPaused, message: "the annotation " + paused.By(p.machine) + " is on it"}
		return p.writeStatus(ctx)
	case p.machine.DeletionTimestamp != nil:
		return p.remove(ctx)
	}
	return p.live(ctx)
}

// result turns what a pass ended with into what comes next. Again is how soon to look once more where nothing has failed; zero for no need.
func (r *Reconciler) result(key types.NamespacedName, again time.Duration, err error) (reconcile.Result, error) {
	switch status.Classify(err) {
	case status.Stale, status.Gone:
		// The event is on its way that says what to decide on.
		return reconcile.Result{RequeueAfter: r.stale.When(key)}, nil
	}
	r.stale.Forget(key)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// later asks for another look, the soonest counts.
func (p *pass) later(wait time.Duration) {
	wait = max(wait, time.Millisecond)
	if p.again == 0 || wait < p.again {
		p.again = wait
	}
}

// laterByProvider asks for another look when the provider wants to be asked again.
func (p *pass) laterByProvider(wait time.Duration) {
	p.scheduled = true
	p.later(wait)
}

// remember returns what is known of a Machine. Another Machine of the name is forgotten, as it is when no other one has taken its place.
func (r *Reconciler) remember(key types.NamespacedName, uid types.UID) *memory {
	r.mu.Lock()
	m := r.known[key]
	r.mu.Unlock()
	if m != nil && m.uid == uid {
		return m
	}
	r.forget(key)
	m = &memory{uid: uid, told: map[string]string{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[key] = m
	return m
}

// forget drops what is known of a Machine that is gone.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	m := r.known[key]
	delete(r.known, key)
	r.mu.Unlock()
	if m == nil {
		return
	}
	r.versions.Forget(string(m.uid))
	r.withdraw(m)
	r.Metrics.forget(key, m.counted)
}

// withdraw ends a drain that is under way.
func (r *Reconciler) withdraw(m *memory) {
	if m.drains != "" {
		r.Engine.Withdraw(m.drains)
		m.drains = ""
	}
}
