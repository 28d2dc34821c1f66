// Package healthcheck remediates unhealthy Machines: Machines that have failed, or whose Node has not appeared in time, is gone or is unhealthy. It
// remediates one after another, and only as long as not too many Machines are unhealthy. It replaces the MachineHealthCheck controller of
// machine-api-operator.
//
// A reconciliation observes the Machines that a MachineHealthCheck selects, and their Nodes, in caches. It lets package plan decide, starts as many
// remediations as may be in flight, and writes the status last.
package healthcheck

import (
	"cmp"
	"context"
	"sync"
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
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/quorum"
)

// Name is the controller's name in logs and metrics.
const Name = "healthcheck"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-healthcheck")

const (
	// maxWait is the longest delay of a reconciliation that is due at some time.
	maxWait = time.Hour
)

// Options configure the controller.
type Options struct {
	// Workers is how many MachineHealthChecks are reconciled at once; less than one counts as one.
	Workers int
	// MaxUnseenStarts is how many remediations of one MachineHealthCheck may start before the cache shows them; less than one counts as one.
	MaxUnseenStarts int
	// Limits limit the remediations of MachineHealthChecks that do not limit them themselves.
	Limits plan.Limits
	// TemplateKinds are the kinds of remediation templates that may be used, written Kind.group. Requests of no other kind are created, listed or
	// deleted.
	TemplateKinds []string
	// Absent knows which kinds of requests are not served; nil knows none.
	Absent *Absent
	// Live reads from the API server itself, any kind: remediation templates and requests, and what a cache is not good enough for. Nil is the cache.
	Live client.Reader
	// Guard protects the control plane; nil protects nothing.
	Guard quorum.MachineChecker
	// Budgets gives permission to disrupt Nodes; nil knows no NodeGroups.
	Budgets *disruption.Budgets
	// Leases acquires the lease of a node before its Machine is deleted. Its holder is the machine controller's holder, and the machine controller
	// renews the lease for the drain. Nil acquires none.
	Leases *nodelease.Leases
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Reconciler reconciles MachineHealthChecks.
type Reconciler struct {
	cache    client.Reader
	writer   client.Client
	recorder record.EventRecorder
	metrics  *Metrics
	options  Options
	clock    clock.PassiveClock
	// versions are the expectations of MachineHealthChecks and Machines. deletions are the expectations of deleted Machines, by UID, for all
	// MachineHealthChecks.
	versions  *expectations.Objects
	deletions *expectations.Owned
	conflicts *controller.Conflicts
	states    *controller.States[state]
	// failures are the failed starts; a restart forgets them. starts are when remediations were last started.
	failures *byOwner[plan.StartFailures]
	starts   *byOwner[time.Time]
	requests *Requests
	// limited is locked while remediations that count against limits are counted and started: MachineHealthChecks can share a MachineSet.
	limited sync.Mutex
	// startTime is when the controller started: it does not report again what its predecessor has reported.
	startTime time.Time
}

// NewReconciler returns a Reconciler. cache has the indexes of Index; writer has to know the kinds of remediation requests.
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
	options.MaxUnseenStarts, options.Absent = max(options.MaxUnseenStarts, 1), cmp.Or(options.Absent, &Absent{})
	r := &Reconciler{
		cache: cache, writer: writer, recorder: recorder, metrics: metrics, options: options, clock: options.Clock,
		versions: expectations.NewObjects(live, options.Clock),
		deletions: expectations.NewOwned(cache, func() client.Object { return &machinev1beta1.Machine{} }, expectations.OwnedOptions{
			Live: live, Clock: options.Clock,
		}),
		conflicts: controller.NewConflicts(), failures: newByOwner[plan.StartFailures](), starts: newByOwner[time.Time](),
		requests:  &Requests{Cache: cache, Live: options.Live, Client: writer, Kinds: options.TemplateKinds, Absent: options.Absent, Clock: options.Clock},
		startTime: options.Clock.Now(),
	}
	r.states = controller.NewStates(newState, func(key types.NamespacedName, uid types.UID, _ *state) {
		r.metrics.forget(key)
		r.versions.Forget(string(uid))
	})
	return r
}

// Run runs the controller until the context ends, and removes its metrics of MachineHealthChecks then. The caches must be synced.
func Run(
	ctx context.Context, cache ctrlcache.Cache, writer client.Client, recorder record.EventRecorder, metrics *Metrics, options Options,
) error {
	defer metrics.reset()
	r := NewReconciler(cache, writer, recorder, metrics, options)
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "machinehealthcheck", Workers: options.Workers}, r.sources(cache)...)
}

// reconciliation is what one reconciliation of a MachineHealthCheck works on. It does not change; what the steps do and find out is an outcome.
// The objects are the cache's own and must not be changed.
type reconciliation struct {
	*Reconciler
	check *machinev1beta1.MachineHealthCheck
	key   types.NamespacedName
	state *state
	now   time.Time
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile checks the Machines of one MachineHealthCheck and starts as many remediations as may be in flight.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	check := &machinev1beta1.MachineHealthCheck{}
	if goesOn, result, err := controller.Begin(ctx, r.cache, key, check, r.versions, r.states, r.conflicts); !goesOn {
		return result, err
	}
	if check.DeletionTimestamp != nil {
		r.states.Forget(key)
		r.conflicts.Forget(key)
		return reconcile.Result{}, nil
	}
	rc := &reconciliation{Reconciler: r, check: check, key: key, state: r.states.Get(key, check.UID), now: r.clock.Now()}
	if paused.By(check) != "" {
		return rc.reconcilePaused(ctx).Result(key, r.conflicts)
	}
	return rc.reconcileMachines(ctx).Result(key, r.conflicts)
}

// reconcilePaused remediates nothing.
func (rc *reconciliation) reconcilePaused(ctx context.Context) outcome {
	return rc.patchStatus(ctx, plan.PausedStatus(rc.check, rc.now))
}

// reconcileMachines observes, plans, applies, and writes the status last. What fails for one Machine does not keep the others from being remediated.
func (rc *reconciliation) reconcileMachines(ctx context.Context) outcome {
	requests, out := rc.observeRequests(ctx, rc.check.Spec.RemediationTemplate)
	current, err := rc.observe(ctx, requests)
	if err != nil {
		return failed(err)
	}
	out = out.and(rc.observeTemplate(ctx, current))
	rc.reportUnhealthy(current)
	current, applied := rc.apply(ctx, current)
	out = out.and(applied)
	if wake := current.decision.Wake; !wake.IsZero() {
		out.Requeue.In(min(wake.Sub(rc.now), maxWait))
	}
	return out.and(rc.updateStatus(ctx, current, &out))
}

// outcome is what one or more steps of a reconciliation have done and found out.
type outcome struct {
	controller.Outcome
	// started is how many remediations have started.
	started int
	// requested reports that an external remediation is among them.
	requested bool
	// remaining reports that remediations have not been tried yet.
	remaining bool
	// blocked are the Machines whose remediation was to start and could not.
	blocked []plan.Blocked
	// templateFailure and requestFailure are why the remediation template and the remediation requests are not available.
	templateFailure plan.TemplateFailure
	requestFailure  string
}

// failed returns the outcome of a request that may have failed.
func failed(err error) outcome { return outcome{Outcome: controller.Failed(err)} }

// isClear reports whether a step has found nothing that keeps the next one from being taken.
func (o *outcome) isClear() bool {
	return len(o.blocked) == 0 && !o.Conflict && o.Requeue.Delay() == 0 && o.Err == nil
}

// and returns the outcome of two steps together.
func (o outcome) and(next outcome) outcome {
	o.Outcome = o.And(next.Outcome)
	o.started += next.started
	o.requested = o.requested || next.requested
	o.remaining = o.remaining || next.remaining
	o.blocked = append(o.blocked, next.blocked...)
	o.templateFailure = cmp.Or(o.templateFailure, next.templateFailure)
	o.requestFailure = cmp.Or(o.requestFailure, next.requestFailure)
	return o
}
