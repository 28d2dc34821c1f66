// Package machineset keeps the number of Machines that a MachineSet asks for. It replaces the MachineSet controller of machine-api-operator.
//
// A reconciliation observes the Machines of a MachineSet and their Nodes in caches that show all of Drover's own writes, has package plan decide,
// applies the decision (adopt, release, create, delete, replace), and writes the status as it is after that.
package machineset

import (
	"context"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineset/plan"
)

// Name is the controller's name in logs and metrics.
const Name = "machineset"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-machineset")

// DefaultParallel is how many requests of one MachineSet run at once where Options do not say.
const DefaultParallel = 50

// retrySoon is how soon a MachineSet is reconciled again after a write whose event the controller ignores.
const retrySoon = 100 * time.Millisecond

// Options configure the controller.
type Options struct {
	// Workers is how many MachineSets are reconciled at once; less than one counts as one.
	Workers int
	// Parallel is how many requests of one MachineSet run at once; less than one counts as DefaultParallel.
	Parallel int
	// ReplaceFailed replaces Machines in the phase Failed: one at a time, with a backoff.
	ReplaceFailed bool
	// Adopt completes a Machine that is about to be created; nil completes nothing.
	Adopt func(*machinev1beta1.MachineSet, *machinev1beta1.Machine)
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
	// Suffix returns the end of a new Machine's name; nil is a random one, as the API server generates it.
	Suffix func() string
}

// Reconciler reconciles MachineSets.
type Reconciler struct {
	cache    client.Reader
	live     client.Reader
	writer   client.Client
	recorder record.EventRecorder
	metrics  *Metrics
	options  Options
	clock    clock.PassiveClock
	// versions are the expectations of MachineSets. owned are the expectations of their Machines.
	versions  *expectations.Objects
	owned     *expectations.Owned
	conflicts *controller.Conflicts
	states    *controller.States[state]
}

// NewReconciler returns a Reconciler. cache has the indexes of Index; live reads from the API server itself, where a cache is not good enough.
// version returns the newest resourceVersion that the cache of Machines has seen; nil where that is not known.
func NewReconciler(
	cache, live client.Reader, version func() string, writer client.Client, recorder record.EventRecorder, metrics *Metrics, options Options,
) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Parallel < 1 {
		options.Parallel = DefaultParallel
	}
	if options.Suffix == nil {
		options.Suffix = func() string { return rand.String(suffixLength) }
	}
	current := expectations.NewLive(live, writer.Scheme())
	r := &Reconciler{
		cache: cache, live: live, writer: writer, recorder: recorder, metrics: metrics, options: options, clock: options.Clock,
		versions: expectations.NewObjects(current, options.Clock),
		owned: expectations.NewOwned(cache, func() client.Object { return &machinev1beta1.Machine{} }, expectations.OwnedOptions{
			Version: version, Live: current, Clock: options.Clock,
		}),
		conflicts: controller.NewConflicts(),
	}
	r.states = controller.NewStates(newState, func(key types.NamespacedName, uid types.UID, _ *state) {
		r.metrics.forget(key)
		r.versions.Forget(string(uid))
		r.owned.Forget(string(uid))
	})
	return r
}

// Run runs the controller until the context ends, and removes its metrics of MachineSets then. The caches must be synced. live reads from the API
// server itself.
func Run(
	ctx context.Context, cache ctrlcache.Cache, live client.Reader, writer client.Client, recorder record.EventRecorder, metrics *Metrics,
	options Options,
) error {
	defer metrics.reset()
	version, err := expectations.StoreVersion(ctx, cache, &machinev1beta1.Machine{})
	if err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	r := NewReconciler(cache, live, version, writer, recorder, metrics, options)
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "machineset", Workers: options.Workers}, r.sources(cache)...)
}

// reconciliation is what one reconciliation of a MachineSet works on. It does not change; what the steps do and find out is an outcome. The objects
// are the cache's own and must not be changed.
type reconciliation struct {
	*Reconciler
	key   types.NamespacedName
	set   *machinev1beta1.MachineSet
	state *state
	now   time.Time
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile creates and deletes Machines until there are as many as the MachineSet asks for.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	set := &machinev1beta1.MachineSet{}
	if goesOn, result, err := controller.Begin(ctx, r.cache, key, set, r.versions, r.states, r.conflicts); !goesOn {
		return result, err
	}
	current := r.states.Get(key, set.UID)
	r.metrics.observe(key, set, &set.Status)
	if set.DeletionTimestamp != nil {
		// The garbage collector deletes or orphans the Machines, as the request for the deletion said.
		return reconcile.Result{}, nil
	}
	rc := &reconciliation{Reconciler: r, key: key, set: set, state: current, now: r.clock.Now()}
	return rc.run(ctx).Result(key, r.conflicts)
}

// run chooses by who has the authority over the MachineSet.
func (rc *reconciliation) run(ctx context.Context) outcome {
	switch plan.AuthorityOf(rc.set) {
	case plan.MachineAPI:
		return rc.reconcileMachines(ctx)
	case plan.Unset:
		return rc.initializeAuthority(ctx)
	case plan.OtherAPI:
		return rc.reportOtherAPI(ctx)
	}
	log.FromContext(ctx).Info("ignoring the MachineSet: its status.authoritativeAPI is unknown", "authoritativeAPI", rc.set.Status.AuthoritativeAPI)
	return outcome{}
}

// reconcileMachines observes, plans, applies, and writes the status last.
func (rc *reconciliation) reconcileMachines(ctx context.Context) outcome {
	if pending, err := rc.owned.Pending(ctx, string(rc.set.UID)); err != nil || pending {
		// Counting the Machines now would create or delete some of them twice.
		return uncertain(err)
	}
	observed, err := rc.observe(ctx)
	if err != nil {
		return outcome{Outcome: controller.Failed(err)}
	}
	decision := plan.Decide(plan.Input{
		Set: rc.set, Machines: observed.machines, Readiness: observed.readiness, Refused: rc.state.refusals(rc.now),
		ReplaceFailed: rc.options.ReplaceFailed,
		Now:           rc.now,
	})
	applied := rc.apply(ctx, observed, &decision)
	if !decision.Wake.IsZero() {
		applied.Requeue.In(decision.Wake.Sub(rc.now))
	}
	for _, refusal := range rc.state.refused {
		applied.Requeue.In(refusal.until.Sub(rc.now))
	}
	if applied.uncertain {
		return applied
	}
	if recorded, first := rc.recordReached(ctx, &decision, &applied); first {
		return applied.and(recorded)
	}
	return applied.and(rc.updateStatus(ctx, &decision, &applied))
}

// outcome is what one or more steps of a reconciliation have done and found out.
type outcome struct {
	controller.Outcome
	// created are the names of the Machines that have been created; so many of them are not for growth: replaced.
	created  []string
	replaced int
	// missing are the Machines that do not count any more: they have been deleted, or could not be adopted.
	missing map[types.UID]bool
	// uncertain reports that the cache may not show which Machines there are, so that no status is written.
	uncertain bool
}

// uncertain returns the outcome of a step that has to be tried again before anything else can be decided.
func uncertain(err error) outcome {
	return outcome{Outcome: controller.Waiting(controller.CatchUp).And(controller.Failed(err)), uncertain: true}
}

// and returns the outcome of two steps together.
func (o outcome) and(next outcome) outcome {
	o.Outcome = o.And(next.Outcome)
	o.created = append(o.created, next.created...)
	o.replaced += next.replaced
	for uid := range next.missing {
		o.markMissing(uid)
	}
	o.uncertain = o.uncertain || next.uncertain
	return o
}

func (o *outcome) markMissing(uid types.UID) {
	if o.missing == nil {
		o.missing = map[types.UID]bool{}
	}
	o.missing[uid] = true
}
