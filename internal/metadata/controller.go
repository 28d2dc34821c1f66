package metadata

import (
	"context"
	"fmt"
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
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/watch"
)

// Name is the capability's name in --controllers and the controller's name in logs and metrics.
const Name = "metadata"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-metadata")

const (
	// catchUp is how soon to look again when a cache lags behind our own write. The event that ends the lag comes first as a rule.
	catchUp = time.Second
	// retryStale is how soon to decide again after a guard failed. It doubles with each failure that follows, up to maxBackoff: a cache may lag.
	retryStale = 100 * time.Millisecond
	// retryDenied is how soon to try a write again that the API server refused.
	retryDenied = 5 * time.Minute
	// Back-off of failed writes.
	minBackoff, maxBackoff = 50 * time.Millisecond, time.Minute
)

// Options are the capability's settings.
type Options struct {
	// Workers is how many Machines are worked on at once; below one counts as one.
	Workers int
	// WritesPerSecond bounds the Nodes written per second, 0 for no bound; Burst is how many of them may come at once.
	WritesPerSecond float64
	Burst           int
	// Protected are the keys that belong to the system.
	Protected ownership.Protected
	// Link tells whether Nodes are to name their Machines, which is nodelink's task where another one runs; nil is no.
	Link func() bool
	// LinkChanged tells that Link says something else now, so that all Machines are looked at again; nil for never.
	LinkChanged <-chan struct{}
	// Clock tells the time; nil is the real one.
	Clock clock.PassiveClock
	// Live asks the API server about own writes that the cache does not show for long; nil asks nobody, and forgets them after a minute.
	Live *expectations.Live
}

// Reconciler works on one Machine at a time.
type Reconciler struct {
	reader    client.Reader
	writer    client.Writer
	protected ownership.Protected
	link      func() bool
	relink    <-chan struct{}
	clock     clock.PassiveClock
	metrics   *Metrics
	notices   notices
	pools     *pools
	ledger    *ledger
	fights    *fights
	pacer     *pacer
	versions  *expectations.Objects
	// stale counts the guards that failed one after another, by Machine.
	stale workqueue.TypedRateLimiter[types.NamespacedName]
}

// NewReconciler makes a reconciler that reads from a cache with the indexes of Index and writes with a client.
func NewReconciler(cache client.Reader, writer client.Writer, recorder record.EventRecorder, metrics *Metrics, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Link == nil {
		options.Link = func() bool { return false }
	}
	return &Reconciler{
		link: options.Link, relink: options.LinkChanged,
		reader: cache, writer: writer, protected: options.Protected, clock: options.Clock, metrics: metrics,
		notices:  notices{recorder},
		pools:    newPools(cache),
		ledger:   newLedger(metrics, options.Clock.Now()),
		fights:   newFights(),
		pacer:    newPacer(options.WritesPerSecond, options.Burst),
		versions: expectations.NewObjects(options.Live, options.Clock),
		stale:    workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](retryStale, maxBackoff),
	}
}

// Run runs the controller until the context ends. The caches must be full. What it knows and shows per object ends with it.
func Run(ctx context.Context, cache ctrlcache.Cache, writer client.Writer, recorder record.EventRecorder, metrics *Metrics, options Options) error {
	defer metrics.reset()
	r := NewReconciler(cache, writer, recorder, metrics, options)
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

// gathered is what one pass knows about a Machine. The objects are the cache's own and must not be changed.
type gathered struct {
	machine  *machinev1beta1.Machine
	declared *declared
	node     *corev1.Node
	shared   bool
	// behind tells that a cache has not caught up with Drover's own last write.
	behind bool
}

// Reconcile brings one Machine and its Node to what the MachineSet declares.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	found, err := r.gather(ctx, request.NamespacedName)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case found == nil:
		r.ledger.gone(request.NamespacedName)
		r.stale.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case found.behind:
		return reconcile.Result{RequeueAfter: catchUp}, nil
	}
	p := &pass{Reconciler: r, gathered: found, key: request.NamespacedName, now: r.clock.Now()}
	p.decide()
	return p.act(ctx)
}

// gather reads the Machine, its MachineSet and its Node from the caches; nil when there is nothing to do for the Machine.
func (r *Reconciler) gather(ctx context.Context, key types.NamespacedName) (*gathered, error) {
	machine := &machinev1beta1.Machine{}
	err := r.reader.Get(ctx, key, machine)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	case machine.DeletionTimestamp != nil:
		// On its way out, and its Node with it: labels and taints now would only disturb the drain.
		return nil, nil
	}
	found := &gathered{machine: machine, behind: r.versions.Pending(ctx, machine)}
	takers, err := r.pools.of(ctx, machine)
	if err != nil {
		return nil, err
	}
	found.declared = r.unique(ctx, machine, takers)
	if own := found.declared; own != nil && !r.ledger.known(own.pool.Key) {
		// The MachineSet's own event is still on its way.
		r.ledger.poolSeen(own.pool, names(r.members(ctx, own.set)), own.set.CreationTimestamp.Time, r.clock.Now())
	}
	return found, r.gatherNode(ctx, found)
}

func (r *Reconciler) gatherNode(ctx context.Context, found *gathered) error {
	name := nodeName(found.machine)
	if name == "" {
		return nil
	}
	node := &corev1.Node{}
	err := r.reader.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Node %s: %w", name, err)
	}
	found.node = node
	found.behind = found.behind || r.versions.Pending(ctx, node)
	claims, err := r.machinesOfNode(ctx, name)
	if err != nil {
		return err
	}
	for i := range claims {
		if claims[i].UID != found.machine.UID && claims[i].DeletionTimestamp == nil {
			found.shared = true
		}
	}
	return nil
}

func (r *Reconciler) machinesOfNode(ctx context.Context, node string) ([]machinev1beta1.Machine, error) {
	var machines machinev1beta1.MachineList
	if err := r.reader.List(ctx, &machines, client.MatchingFields{indexNode: node}); err != nil {
		return nil, fmt.Errorf("listing the Machines of Node %s: %w", node, err)
	}
	return machines.Items, nil
}

func nodeName(machine *machinev1beta1.Machine) string {
	if machine.Status.NodeRef == nil {
		return ""
	}
	return machine.Status.NodeRef.Name
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// decide asks the plan what is to be done.
func (p *pass) decide() {
	in := plan.Input{Machine: p.machine, Node: p.node, NodeShared: p.shared, Protected: p.protected, Link: p.link(), Now: p.now}
	if p.declared != nil {
		in.Declaration = p.declared.pool
	}
	if p.fights.any() {
		in.Withheld = func(target plan.Target, kind ownership.Kind, key string) bool {
			until := p.fights.withheld(p.fightKey(target, kind, key), p.now)
			if !until.IsZero() && (p.wake.IsZero() || until.Before(p.wake)) {
				p.wake = until
			}
			return !until.IsZero()
		}
	}
	p.decision = plan.Decide(in)
}
