package maintenance

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
)

// Holder is the identity in the leases of nodes, that of node-maintenance-operator.
const Holder = "node-maintenance"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-maintenance")

const (
	// retryLease is how soon to try again to acquire a lease that another holder has, and how far apart failures are counted.
	retryLease = time.Minute
	// retryDenied is how soon a request is tried again that the API server denied.
	retryDenied = 30 * time.Second
	// retryQuorum is how soon to check again whether the control plane can spare a node.
	retryQuorum = 5 * time.Second
	// blockedPatience is how long a drain may be blocked for a temporary reason before an event reports it.
	blockedPatience = 15 * time.Second
	// statusEvery bounds how often the status is written for progress alone.
	statusEvery = time.Second
	// maxLeaseErrors is the number of failures in a row after which node-maintenance-operator uncordons the node.
	maxLeaseErrors = 3
	// maxBackoff is the longest delay after a NodeMaintenance failed repeatedly.
	maxBackoff = 30 * time.Second
)

// UncordonPolicy is what happens when another writer uncordons a node in maintenance.
type UncordonPolicy string

// The policies.
const (
	// Repair cordons it again, with an event. The zero value means Repair.
	Repair UncordonPolicy = "Repair"
	// Report stops the drain and reports it in the condition Cordoned.
	Report UncordonPolicy = "Report"
)

// Options configure the capability.
type Options struct {
	// Workers is how many NodeMaintenances are reconciled at once; less than one counts as one.
	Workers int
	// Uncordon is what happens when another writer uncordons a node in maintenance.
	Uncordon UncordonPolicy
	// LeaseLoss is how long another holder may have the lease before a maintenance that has not succeeded uncordons the node.
	LeaseLoss time.Duration
	// Limits are what an administrator has disabled.
	Limits Limits
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Guard decides whether the control plane can spare a node.
type Guard interface {
	// Applies reports whether a node belongs to the control plane.
	Applies(node *corev1.Node) bool
	// Check returns why the node cannot be spared now; empty when it can. It reads from the API server.
	Check(ctx context.Context, node *corev1.Node) (denial string, err error)
	// Lock lets one caller at a time, of all capabilities, check and then disrupt a node. What is done under the lock has the context that it
	// returns, which ends after a while.
	Lock(ctx context.Context) (bounded context.Context, unlock func())
}

// Dependencies are what the controllers of both groups share.
type Dependencies struct {
	// Cache has the indexes of Index and of the drain engine.
	Cache client.Reader
	// Writer makes all writes.
	Writer client.Client
	// APIReader reads from the API server whether the owner of a cordon record still exists.
	APIReader client.Reader
	// Live is asked about own writes that the cache does not show for a minute; with nil they are dropped.
	Live *expectations.Live
	// Nodes records the own writes of Nodes that the cache may not show yet, of all groups.
	Nodes *expectations.Objects
	// Recorder emits events.
	Recorder record.EventRecorder
	// Engine drains nodes.
	Engine *engine.Engine
	// Lease has the leases of nodes that all controllers acquire.
	Lease *nodelease.Leases
	// OwnLease has the second leases, which node-maintenance-operator acquires in the kubevirt group only.
	OwnLease *nodelease.Leases
	// Registry has the NodeMaintenances of both groups.
	Registry *Registry
	// Guard checks control-plane nodes.
	Guard Guard
	// Metrics are the metrics of the capability.
	Metrics *Metrics
}

// Reconciler reconciles the NodeMaintenances of one group.
type Reconciler struct {
	*Dependencies
	flavour   *Flavour
	options   Options
	clock     clock.PassiveClock
	versions  *expectations.Objects
	conflicts *controller.Conflicts
	states    *controller.States[state]
}

// state is what is known of a NodeMaintenance between reconciliations.
type state struct {
	// draining is the node that the engine drains for this NodeMaintenance; empty for none.
	draining string
	// statusWritten is when the status was written last.
	statusWritten time.Time
	// counted is when a failure of the lease was counted last.
	counted time.Time
	// ended reports whether the finalizer has been removed; the cache may still show the object.
	ended bool
	// blocked is since when the drain has been blocked, zero when it is not; reported is the reason that an event was emitted for.
	blocked  time.Time
	reported string
}

// NewReconciler returns a reconciler for one group.
func NewReconciler(flavour *Flavour, dependencies *Dependencies, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	r := &Reconciler{
		Dependencies: dependencies, flavour: flavour, options: options, clock: options.Clock,
		versions: expectations.NewObjects(dependencies.Live, options.Clock), conflicts: controller.NewConflicts(),
	}
	r.states = controller.NewStates(func() *state { return &state{} }, r.end)
	return r
}

// Run runs the controller of one group until the context ends, and ends its drains then. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, flavour *Flavour, dependencies *Dependencies, options Options) error {
	r := NewReconciler(flavour, dependencies, options)
	defer dependencies.Registry.enter(flavour)()
	defer r.states.Clear()
	return controller.Run(ctx, r, controller.Options{
		Name: flavour.Name, LogKey: "nodemaintenance", Workers: options.Workers, MaxBackoff: maxBackoff,
	}, r.sources(cache)...)
}

// end ends the drain and the metrics of a NodeMaintenance that is gone, or whose controller stops.
func (r *Reconciler) end(key types.NamespacedName, uid types.UID, ended *state) {
	r.withdraw(ended)
	r.Metrics.forget(r.flavour, key.Name)
	r.versions.Forget(string(uid))
}

// pass is one reconciliation of a NodeMaintenance.
type pass struct {
	*Reconciler
	*view
	state   *state
	now     time.Time
	found   observation
	requeue controller.Requeue
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile does the next steps of a NodeMaintenance.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := r.flavour.fresh()
	err := r.Cache.Get(ctx, request.NamespacedName, object)
	switch {
	case apierrors.IsNotFound(err):
		r.conflicts.Forget(request.NamespacedName)
		r.states.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading NodeMaintenance %s: %w", request.Name, err)
	}
	if r.versions.Pending(ctx, object) {
		return reconcile.Result{RequeueAfter: controller.CatchUp}, nil
	}
	p := &pass{Reconciler: r, view: r.flavour.view(object), now: r.clock.Now()}
	p.state = r.states.Get(request.NamespacedName, p.GetUID())
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("node", p.spec.NodeName))
	switch {
	case p.state.ended:
		return reconcile.Result{}, nil
	case paused.Is(p.GetAnnotations()):
		err = p.pause(ctx)
	case p.GetDeletionTimestamp() != nil:
		err = p.finish(ctx)
	default:
		err = p.maintain(ctx)
	}
	return r.conflicts.Result(request.NamespacedName, p.requeue, err)
}

// withdraw ends the drain of a NodeMaintenance, if it has one.
func (r *Reconciler) withdraw(s *state) {
	if s.draining != "" {
		r.Engine.Withdraw(s.draining)
		s.draining = ""
	}
}

// by is the owner in the cordon record of the node.
func (v *view) by() string { return recordPrefix + string(v.GetUID()) }

const recordPrefix = "NodeMaintenance/"
