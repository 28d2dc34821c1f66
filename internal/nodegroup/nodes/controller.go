package nodes

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/metadata/pace"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
)

// Name is the controller's name in logs and metrics.
const Name = "node-groups-nodes"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-node-groups")

// retryDenied is how soon a write is tried again that the API server denied.
const retryDenied = 5 * time.Minute

// Dependencies are what the controller works with.
type Dependencies struct {
	// Cache reads Nodes and, where they are served, Machines and MachineSets.
	Cache    client.Reader
	Writer   client.Client
	Recorder record.EventRecorder
	Metrics  *Metrics
	Finder   *members.Finder
	// Admissions say which Nodes a roll-out has reached.
	Admissions *Admissions
	// Guard evicts Pods before taints with the effect NoExecute; nil where Drover drains no nodes.
	Guard *Guard
	// Live asks the API server about own writes that the cache does not show for long; with nil they are dropped after a minute.
	Live *expectations.Live
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Options configure the controller.
type Options struct {
	// Workers is how many Nodes are reconciled at once; less than one counts as one.
	Workers int
	// Limiter bounds the rate of writes together with those of other controllers.
	Limiter *pace.Limiter
	// Protected are the keys that belong to the system.
	Protected ownership.Protected
	// Machines reports whether Machines are served.
	Machines func() bool
}

// Reconciler reconciles Nodes.
type Reconciler struct {
	Dependencies
	options    Options
	contention *pace.Contention
	versions   *expectations.Objects
	conflicts  *controller.Conflicts
	states     *controller.States[nodeState]
	// guarded has the names of the Nodes that lack guarded taints.
	guarded sync.Map
}

// nodeState is what is known of a Node between two reconciliations, so that events mark transitions.
type nodeState struct {
	// problems are those that events have reported.
	problems map[string]bool
	// denied reports that the API server denied the last write.
	denied bool
	// guardedSince is since when the guard has the Node's lease; zero while it has not.
	guardedSince time.Time
}

// NewReconciler returns a Reconciler.
func NewReconciler(dependencies Dependencies, options Options) *Reconciler {
	if dependencies.Clock == nil {
		dependencies.Clock = clock.RealClock{}
	}
	return &Reconciler{
		Dependencies: dependencies, options: options, contention: pace.NewContention(),
		versions:  expectations.NewObjects(dependencies.Live, dependencies.Clock),
		conflicts: controller.NewConflicts(),
		states:    controller.NewStates(func() *nodeState { return &nodeState{problems: map[string]bool{}} }, nil),
	}
}

// Run runs the controller until the context ends. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, dependencies Dependencies, options Options) error {
	r := NewReconciler(dependencies, options)
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "node", Workers: options.Workers}, r.sources(cache)...)
}

// reconciliation is what one reconciliation of a Node works on. Only decide sets begun.
type reconciliation struct {
	*Reconciler
	*observation
	key   types.NamespacedName
	state *nodeState
	now   time.Time
	// begun reports that Pods are leaving, or have left, for a guarded taint.
	begun bool
}

// outcome is what has come of applying a decision.
type outcome struct {
	wrote   bool
	class   status.Class
	err     error
	requeue controller.Requeue
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes a Node carry what its NodeGroup declares, and gives back what a group declared that the Node has left.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	observed, err := r.observe(ctx, request.Name)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case observed == nil:
		r.states.Forget(request.NamespacedName)
		r.conflicts.Forget(request.NamespacedName)
		return reconcile.Result{}, nil
	case observed.pending:
		return reconcile.Result{RequeueAfter: controller.CatchUp}, nil
	}
	rc := &reconciliation{
		Reconciler: r, observation: observed, key: request.NamespacedName,
		state: r.states.Get(request.NamespacedName, observed.Node.UID), now: r.Clock.Now(),
	}
	decision, requeue, err := rc.decide(ctx)
	if err != nil {
		return r.conflicts.Result(rc.key, requeue, err)
	}
	applied := rc.apply(ctx, &decision, requeue)
	rc.report(&decision, &applied)
	return rc.result(&applied)
}

// decide returns what is to be written, and when the first key may be written again that is left alone until then.
func (rc *reconciliation) decide(ctx context.Context) (decision metadataplan.GroupDecision, requeue controller.Requeue, err error) {
	in := rc.Input(rc.options.Protected, rc.now)
	in.Guard = metadataplan.GuardClear
	if rc.contention.Any() {
		in.Contended = func(kind ownership.Kind, key string) bool {
			until := rc.contention.Until(rc.entry(kind, key), rc.now)
			if until.IsZero() {
				return false
			}
			requeue.In(until.Sub(rc.now))
			return true
		}
	}
	decision = metadataplan.DecideGroup(in)
	guarded := decision.Guarded
	if len(guarded) == 0 {
		rc.Admissions.setHeld(rc.Node.Name, "")
		return decision, requeue, rc.endGuard(ctx)
	}
	if rc.begun, err = rc.hasBegun(ctx, guarded); err != nil {
		return decision, requeue, err
	}
	if !rc.mayWrite(&decision) {
		return decision, requeue, nil
	}
	rc.guarded.Store(rc.Node.Name, true)
	v, err := rc.guardTaints(ctx, guarded)
	if err != nil {
		return decision, requeue, err
	}
	if delay := v.requeue.Delay(); delay > 0 {
		requeue.In(delay)
	}
	rc.Admissions.setHeld(rc.Node.Name, v.held)
	in.Guard, in.Held = v.guard, cmp.Or(v.held, "it waits for the budget of the group, or for the Node's lease")
	decision = metadataplan.DecideGroup(in)
	return decision, requeue, nil
}

// result turns an outcome into what Reconcile returns.
func (rc *reconciliation) result(applied *outcome) (reconcile.Result, error) {
	if applied.class == status.Denied {
		return reconcile.Result{RequeueAfter: retryDenied}, nil
	}
	return rc.conflicts.Result(rc.key, applied.requeue, applied.err)
}
