package replacement

import (
	"context"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodegroup/history"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/quorum"
)

// Name is the controller's name in logs and metrics.
const Name = "node-groups-replacement"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-node-groups")

// retryBlocked is how soon a group is reconciled again that waits for something of which there is no event.
const retryBlocked = 5 * time.Second

// Dependencies are what the controller works with.
type Dependencies struct {
	// Cache reads NodeGroups, Nodes, MachineSets and Machines, with their providerSpecs and the indexes of machineapi/lookup.
	Cache    client.Reader
	Writer   client.Client
	Recorder record.EventRecorder
	Metrics  *Metrics
	Finder   *members.Finder
	Reports  *Reports
	// Budgets give permission to disrupt Nodes.
	Budgets *disruption.Budgets
	// Leases acquires the lease of a Node before its Machine is deleted, with the holder of the machine controller; nil acquires none.
	Leases *nodelease.Leases
	// Guard protects the control plane; nil protects nothing.
	Guard quorum.Checker
	// History keeps the templates of MachineSets; nil keeps nothing.
	History *history.Store
	// Live asks the API server about own writes that the cache does not show for long; with nil they are dropped after a minute.
	Live *expectations.Live
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Options configure the controller.
type Options struct {
	// Protected are the keys of Nodes that belong to the system.
	Protected ownership.Protected
	// Creates reports whether Drover creates the Machines of MachineSets, Others whether machine-api-operator does.
	Creates, Others func() bool
}

// Reconciler reconciles NodeGroups. A request with a namespace is for a MachineSet that belongs to no group.
type Reconciler struct {
	Dependencies
	options   Options
	owned     *expectations.Owned
	conflicts *controller.Conflicts
	states    *controller.States[groupState]
}

// groupState is what is known of a group between two reconciliations.
type groupState struct {
	// waiting is the request that the budget has no place for; nil for none.
	waiting *disruption.Request
	// denied are the Machines that the API server does not let Drover delete, and when the next attempt is due.
	denied  map[types.UID]time.Time
	history historyState
	// reconciled is when the group was last reconciled, and interval how long it is left alone after that.
	reconciled time.Time
	interval   time.Duration
}

func newGroupState() *groupState {
	return &groupState{denied: map[types.UID]time.Time{}, history: historyState{kept: map[types.UID]keptTemplate{}}}
}

// NewReconciler returns a Reconciler. version returns the newest resourceVersion that the cache of Machines has seen; nil where that is not known.
func NewReconciler(dependencies Dependencies, version func() string, options Options) *Reconciler {
	if dependencies.Clock == nil {
		dependencies.Clock = clock.RealClock{}
	}
	r := &Reconciler{
		Dependencies: dependencies, options: options, conflicts: controller.NewConflicts(),
		owned: expectations.NewOwned(dependencies.Cache, func() client.Object { return &machinev1beta1.Machine{} }, expectations.OwnedOptions{
			Version: version, Live: dependencies.Live, Clock: dependencies.Clock,
		}),
	}
	r.states = controller.NewStates(newGroupState, r.forget)
	return r
}

// forget drops what is known of a group that is gone.
func (r *Reconciler) forget(key types.NamespacedName, uid types.UID, _ *groupState) {
	r.conflicts.Forget(key)
	r.Reports.Forget(uid)
}

// Run runs the controller until the context ends. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, dependencies Dependencies, options Options) error {
	version, err := expectations.StoreVersion(ctx, cache, &machinev1beta1.Machine{})
	if err != nil {
		return err
	}
	r := NewReconciler(dependencies, version, options)
	defer r.states.Clear()
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "nodegroup", Workers: 1}, r.sources(cache)...)
}

// reconciliation is what one reconciliation of a group works on. It does not change.
type reconciliation struct {
	*Reconciler
	*observation
	key   types.NamespacedName
	state *groupState
	now   time.Time
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile replaces outdated Machines of a group.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	if key.Namespace != "" {
		return r.reconcileSet(ctx, key)
	}
	begun := r.Clock.Now()
	if wait := r.wait(key, begun); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	observed, err := r.observe(ctx, key.Name)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case observed == nil:
		r.states.Forget(key)
		return reconcile.Result{}, nil
	case observed.pending:
		return reconcile.Result{RequeueAfter: controller.CatchUp}, nil
	}
	rc := &reconciliation{Reconciler: r, observation: observed, key: key, state: r.states.Get(key, observed.group.UID), now: r.Clock.Now()}
	in, err := rc.input(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	decision := plan.Decide(in)
	requeue, err := rc.apply(ctx, &decision)
	rc.state.reconciled, rc.state.interval = begun, min(share*r.Clock.Since(begun), maxInterval)
	result, err := r.conflicts.Result(key, requeue, err)
	if err != nil {
		// The next attempt is when the queue says: a result without an error would end its back-off.
		rc.state.interval = 0
	}
	return result, err
}

// share is the part of the time that a group is reconciled at most, and maxInterval the longest time between two beginnings: to read a group of
// thousands of Machines takes long, and their events come ten times a second.
const (
	share       = 5
	maxInterval = 2 * time.Second
)

// wait returns how long a group is left alone still.
func (r *Reconciler) wait(key types.NamespacedName, now time.Time) time.Duration {
	state := r.states.Peek(key)
	if state == nil {
		return 0
	}
	wait := state.interval - now.Sub(state.reconciled)
	if wait > state.interval {
		return 0 // the clock was set back
	}
	return wait
}

// reconcileSet removes the marks from the Machines of a MachineSet that belongs to no group any more. The MachineSet deletes those that are then too
// many.
func (r *Reconciler) reconcileSet(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	observed, err := r.observeSet(ctx, key)
	switch {
	case err != nil || observed == nil:
		return reconcile.Result{}, err
	case observed.pending:
		return reconcile.Result{RequeueAfter: controller.CatchUp}, nil
	}
	rc := &reconciliation{Reconciler: r, observation: observed, key: key, now: r.Clock.Now()}
	return r.conflicts.Result(key, controller.Requeue{}, rc.unmarkAll(ctx))
}
