// Package nodegroup is the capability that applies NodeGroups to groups of Nodes, on any cluster: what the Nodes carry, and the waves of each change.
//
// The reconciled object is the NodeGroup. A reconciliation observes the group and its Nodes. It lets package replacement replace outdated Machines,
// and package plan decide which Nodes a roll-out has reached. It admits these Nodes, which the
// controller of metadata writes, and writes the status.
package nodegroup

import (
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/nodegroup/replacement"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/rollout/history"
)

// Name is the capability's name in --controllers, and the controller's name in logs and metrics.
const Name = "node-groups"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-node-groups")

// workers is how many groups are reconciled at once: one of them may wait for lists of Pods.
const workers = 4

// Dependencies are what the controller works with.
type Dependencies struct {
	Cache    client.Reader
	Writer   client.Client
	Recorder record.EventRecorder
	Metrics  *Metrics
	Finder   *members.Finder
	Gate     *gate.Gate
	// History keeps what groups and MachineSets have declared; nil keeps nothing.
	History *history.Store
	// Replacer replaces outdated Machines; nil where none are replaced.
	Replacer *replacement.Replacer
	// Budgets gives out the places in the budgets of the groups; nil for none.
	Budgets *disruption.Budgets
	// Live asks the API server about own writes that the cache does not show for long; with nil they are dropped after a minute.
	Live *expectations.Live
	// API reads Pods and PersistentVolumes from the API server; nil reads none, and nothing keeps labels from being taken away.
	API *pages.Reader
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Options configure the controller.
type Options struct {
	// Protected are the keys that belong to the system.
	Protected ownership.Protected
	// Machines reports whether Machines are served.
	Machines func() bool
}

// Reconciler reconciles NodeGroups.
type Reconciler struct {
	Dependencies
	options   Options
	versions  *expectations.Objects
	conflicts *controller.Conflicts
	states    *controller.States[groupState]
}

// groupState is what is known of a group between two reconciliations.
type groupState struct {
	// begun is when this process reconciled the group first.
	begun time.Time
	// reconciled is when the group was last reconciled, and interval how long after that the next time is. written is when a write of its
	// status was last tried.
	reconciled, written time.Time
	interval            time.Duration
	// generation and annotations belong to the group that was reconciled then.
	generation  int64
	annotations map[string]string
	// own is the status as this process has read it first or written it last; nil for not known.
	own         *v1alpha1.NodeGroupStatus
	history     historyState
	lookups     lookups
	replacement *replacement.State
	// left is since when this process has seen Nodes out of the group whose record still names it, by name.
	left map[string]time.Time
}

// NewReconciler returns a Reconciler.
func NewReconciler(dependencies Dependencies, options Options) *Reconciler {
	if dependencies.Clock == nil {
		dependencies.Clock = clock.RealClock{}
	}
	r := &Reconciler{
		Dependencies: dependencies, options: options,
		versions:  expectations.NewObjects(dependencies.Live, dependencies.Clock),
		conflicts: controller.NewConflicts(),
	}
	r.states = controller.NewStates(func() *groupState { return &groupState{replacement: replacement.NewState()} }, r.forget)
	return r
}

// forget drops what is known of a group that is gone, and its series.
func (r *Reconciler) forget(key types.NamespacedName, uid types.UID, _ *groupState) {
	r.versions.Forget(string(uid))
	r.conflicts.Forget(key)
	r.Gate.Forget(uid)
	r.Metrics.forget(key.Name)
}

// Run runs the controller until the context ends, and removes its metrics of single groups then. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, dependencies Dependencies, options Options) error {
	r := NewReconciler(dependencies, options)
	defer r.states.Clear()
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "nodegroup", Workers: workers}, r.sources(cache)...)
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

// Reconcile replaces outdated Machines, admits the Nodes that a roll-out has reached, and writes the status. A request with a namespace is for a
// MachineSet that belongs to no group.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, now := request.NamespacedName, r.Clock.Now()
	if key.Namespace != "" {
		return r.reconcileSet(ctx, key)
	}
	// Before all Nodes are read: in a roll-out an event of one of them comes every millisecond.
	wait, err := r.wait(ctx, key, now)
	if err != nil || wait > 0 {
		controller.KeepBackoff(ctx)
		return reconcile.Result{RequeueAfter: wait}, err
	}
	observed, err := r.observe(ctx, key)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case observed == nil:
		r.states.Forget(key)
		return reconcile.Result{}, r.forgetBudget(ctx, key.Name)
	case r.versions.Pending(ctx, observed.group.NodeGroup):
		return reconcile.Result{RequeueAfter: controller.CatchUp}, nil
	}
	state := r.states.Get(key, observed.group.UID)
	if state.begun.IsZero() {
		state.begun = now
	}
	state.reconciled, state.generation, state.annotations = now, observed.group.Generation, observed.group.Annotations
	rc := &reconciliation{Reconciler: r, observation: observed, key: key, now: now, state: state}
	var requeue controller.Requeue
	rc.keepHistory(ctx, &requeue)
	report, replaced := rc.replaceMachines(ctx)
	metadata := rc.reconcileMetadata(ctx, report)
	state.interval = intervalAfter(r.Clock.Since(now), report.Replacing)
	if metadata.Err != nil {
		// The next attempt is when the queue says.
		state.interval = 0
	}
	out := controller.Outcome{Requeue: requeue}.And(replaced).And(metadata)
	result, err := out.Result(key, r.conflicts)
	if err != nil {
		// One part does not wait for the other, which has failed.
		result.RequeueAfter = out.Requeue.Delay()
	}
	return result, err
}

// reconcileSet has the marks of a group removed from the Machines of a MachineSet that belongs to none any more.
func (r *Reconciler) reconcileSet(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	groups, err := r.Finder.Groups(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.Replacer.ReconcileSet(ctx, groups, key).Result(key, r.conflicts)
}

// While Machines are replaced, a group is reconciled more often, and its status is written as often as otherwise. replacingShare is the part of the
// time that this takes at most: a hundred Machines that boot at the same time are not a hundred reconciliations of all of them.
const (
	replacingShare       = 5
	minReplacingInterval = 100 * time.Millisecond
	maxReplacingInterval = 2 * time.Second
)

// intervalAfter returns how long after the beginning of a reconciliation that took some time the next one begins.
func intervalAfter(took time.Duration, replacing bool) time.Duration {
	if replacing {
		return min(max(minReplacingInterval, replacingShare*took), maxReplacingInterval)
	}
	return controller.IntervalAfter(took)
}

// wait returns how long a group is to be left alone; zero for not at all. What a user changes waits for controller.MinInterval only, and a change of
// the spec not even for that unless the status was just written.
func (r *Reconciler) wait(ctx context.Context, key types.NamespacedName, now time.Time) (time.Duration, error) {
	state := r.states.Peek(key)
	if state == nil {
		return 0, nil
	}
	var group v1alpha1.NodeGroup
	if err := r.Cache.Get(ctx, key, &group); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	interval, since := state.interval, state.reconciled
	switch {
	case group.Generation != state.generation:
		interval, since = min(interval, controller.MinInterval), state.written
	case !maps.Equal(group.Annotations, state.annotations):
		interval = min(interval, controller.MinInterval)
	}
	wait := interval - now.Sub(since)
	if wait > interval {
		// The clock was set back.
		return 0, nil
	}
	return max(wait, 0), nil
}

// replaceMachines replaces outdated Machines, and returns what the status of the group says about that.
func (rc *reconciliation) replaceMachines(ctx context.Context) (replacementplan.Report, controller.Outcome) {
	switch {
	case rc.group.Spec.Nodes.MachineSets == nil:
		return replacementplan.Report{}, controller.Outcome{}
	case rc.Replacer == nil:
		return replacementplan.Unavailable(rc.group.NodeGroup), controller.Outcome{}
	}
	return rc.Replacer.Reconcile(ctx, replacement.Group{
		Group: rc.group, All: rc.groups, Nodes: rc.nodes, State: rc.state.replacement, Now: rc.now,
	})
}

// reconcileMetadata observes what is left of the budget, plans and applies. Others wait for the budget, so it comes before the lists of Pods, which
// may take long.
func (rc *reconciliation) reconcileMetadata(ctx context.Context, report replacementplan.Report) (out controller.Outcome) {
	in, requeue := rc.input(report), &controller.Requeue{}
	defer func() { out.Requeue = *requeue }()
	var err error
	if in.Budget, err = rc.observeBudget(ctx, requeue); err != nil {
		return controller.Failed(err)
	}
	if err := rc.observePods(ctx, in, requeue); err != nil {
		return controller.Failed(err)
	}
	decision := plan.Decide(in)
	return controller.Failed(rc.apply(ctx, in, &decision, requeue))
}

// forgetBudget has the requests made again that wait for the budget of a group that is gone.
func (r *Reconciler) forgetBudget(ctx context.Context, group string) error {
	if r.Budgets == nil {
		return nil
	}
	return r.Budgets.Forget(ctx, group)
}
