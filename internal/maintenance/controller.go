// Package maintenance is the capability behind NodeMaintenance, in both of its API groups: a node is cordoned, tainted and drained for as long as the
// object exists, and restored when it is deleted. It replaces node-maintenance-operator.
package maintenance

import (
	"context"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/quorum"
)

// Holder is the identity in the leases of nodes. node-maintenance-operator uses the same one.
const Holder = "node-maintenance"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-maintenance")

const (
	// statusInterval is the shortest time between two updates of the status that report progress only.
	statusInterval = time.Second
	// maxBackoff is the longest delay after a NodeMaintenance failed repeatedly.
	maxBackoff = 30 * time.Second
)

// Options configure the capability.
type Options struct {
	// Workers is how many NodeMaintenances are reconciled at once; less than one counts as one.
	Workers int
	// Settings are what decisions depend on.
	plan.Settings
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Dependencies are what the controllers of both groups share.
type Dependencies struct {
	// Cache has the indexes of Index and of the drain engine.
	Cache client.Reader
	// Writer makes all writes.
	Writer client.Client
	// Live reads from the API server itself, where a cache is not good enough.
	Live client.Reader
	// Nodes has the own writes of Nodes that the cache may not show yet, of all groups.
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
	// Budgets gives out the places in the budgets of NodeGroups; nil for none.
	Budgets *disruption.Budgets
	// Guard protects the control plane; nil protects nothing.
	Guard quorum.Checker
	// Metrics are the metrics of the capability.
	Metrics *Metrics
}

// Reconciler reconciles the NodeMaintenances of one group.
type Reconciler struct {
	*Dependencies
	group     *Group
	options   Options
	clock     clock.PassiveClock
	versions  *expectations.Objects
	conflicts *controller.Conflicts
	states    *controller.States[state]
}

// NewReconciler returns a reconciler for one group.
func NewReconciler(group *Group, dependencies *Dependencies, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	r := &Reconciler{
		Dependencies: dependencies, group: group, options: options, clock: options.Clock,
		versions:  expectations.NewObjects(expectations.NewLive(dependencies.Live, dependencies.Writer.Scheme()), options.Clock),
		conflicts: controller.NewConflicts(),
	}
	r.states = controller.NewStates(func() *state { return &state{} }, r.end)
	return r
}

// Run runs the controller of one group until the context ends, and ends its drains then. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, group *Group, dependencies *Dependencies, options Options) error {
	r := NewReconciler(group, dependencies, options)
	defer dependencies.Registry.serve(group)()
	defer r.states.Clear()
	return controller.Run(ctx, r, controller.Options{
		Name: group.Name, LogKey: "nodemaintenance", Workers: options.Workers, MaxBackoff: maxBackoff,
	}, r.sources(cache)...)
}

// reconciliation is what one reconciliation of a NodeMaintenance works on. It does not change; what the steps find out is a plan.Progress.
type reconciliation struct {
	*Reconciler
	state *state
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile does the next steps of a NodeMaintenance.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, object := request.NamespacedName, r.group.NewObject()
	if goesOn, result, err := controller.Begin(ctx, r.Cache, key, object, r.versions, r.states, r.conflicts); !goesOn {
		return result, err
	}
	rc := &reconciliation{Reconciler: r, state: r.states.Get(key, object.GetUID())}
	var requeue controller.Requeue
	err := rc.run(log.IntoContext(ctx, log.FromContext(ctx).WithValues("node", object.GetSpec().NodeName)), object, &requeue)
	return r.conflicts.Result(key, requeue, err)
}

// run observes, plans, applies, and writes the status last. The object is the cache's own and must not be changed.
func (rc *reconciliation) run(ctx context.Context, object plan.Object, requeue *controller.Requeue) error {
	isPaused := paused.Is(object.GetAnnotations())
	isEnding := object.GetDeletionTimestamp() != nil && !isPaused
	if isPaused || isEnding {
		// Whatever fails from here on: no more Pods are evicted.
		rc.stopEvictions(rc.state)
	}
	if rc.state.finished || hasReleased(object) {
		return nil
	}
	in, err := rc.observe(ctx, object)
	switch {
	case err != nil:
		return err
	case isEnding:
		return rc.release(ctx, in)
	}
	if err := rc.observePeers(ctx, in); err != nil {
		return err
	}
	progress, err := rc.carryOut(ctx, in)
	if err != nil {
		return err
	}
	err = rc.updateStatus(ctx, in, &progress)
	requeue.Merge(progress.Requeue)
	return err
}

// carryOut plans and applies. Evictions stop before anything else is written, and stay stopped when nothing is being evicted any more.
func (rc *reconciliation) carryOut(ctx context.Context, in *plan.Input) (plan.Progress, error) {
	decision := plan.Decide(in)
	if decision.Action != plan.Drain {
		rc.stopEvictions(rc.state)
	}
	progress, err := rc.apply(ctx, in, &decision)
	if err == nil && !progress.Evicting {
		rc.stopEvictions(rc.state)
	}
	return progress, err
}
