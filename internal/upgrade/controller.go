// Package upgrade gates the upgrade of nodes, as MutexRules, MutexTargets and MutexRunConfigs declare it: the Jobs of the rules run before each node
// is released, and then the machine-config-operator upgrades only that node.
//
// Package plan decides. This package observes the cluster, carries the plan out, and writes the status. A run is resolved from its
// MachineConfigPools, Nodes and Jobs in each reconciliation; nothing that it needs to continue is kept in memory.
package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// Name is the capability's name in --controllers, logs and metrics.
const Name = "upgrade"

// Holder is the identity in the node leases.
const Holder = "drover-upgrade"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-upgrade")

// maxBackoff is the longest delay after a request of a run, rule or target failed repeatedly.
const maxBackoff = 30 * time.Second

// Options configure the controllers.
type Options struct {
	// NodeVersion says from where the version of a node is read.
	NodeVersion plan.VersionSource
	// Namespaces are those whose MutexRunConfigs, MutexRules and MutexTargets have an effect; empty is all.
	Namespaces []string
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// refusal returns why the objects of a namespace have no effect; empty if they have one.
func (o *Options) refusal(namespace string) string {
	if len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace) {
		return ""
	}
	return fmt.Sprintf("namespace %s is not among upgrade.namespaces of Drover's configuration: Drover does nothing for this object", namespace)
}

// Dependencies are what the controllers work with.
type Dependencies struct {
	// Cache has Nodes, MachineConfigPools, the metadata of MachineConfigs, the ClusterVersion, the Jobs of runs, and the capability's own kinds.
	Cache client.Reader
	// JobsVersion returns the newest resourceVersion that the cache of Jobs has seen; nil where that is not known.
	JobsVersion func() string
	// Writer makes all writes.
	Writer client.Client
	// Live reads from the API server itself.
	Live client.Reader
	// Pages reads what tenants can create from it, page by page.
	Pages *pages.Reader
	// Recorder emits events.
	Recorder record.EventRecorder
	// Leases acquires the node leases as Holder.
	Leases *nodelease.Leases
	// Budgets gives out the places in the budgets of NodeGroups; nil for none.
	Budgets *disruption.Budgets
	// Logs returns the last lines of the log of a Job; nil is for no logs.
	Logs func(ctx context.Context, job *batchv1.Job) (string, error)
	// Metrics are the capability's.
	Metrics *Metrics
}

// Reconciler reconciles MutexRunConfigs, one at a time: no two runs reserve a MachineConfigPool at once.
type Reconciler struct {
	Dependencies
	options Options
	clock   clock.PassiveClock
	// versions are the expectations of all objects that are patched. jobs are the expectations of Jobs that were created and deleted, by the UID of the
	// run.
	versions  *expectations.Objects
	jobs      *expectations.Owned
	conflicts *controller.Conflicts
	states    *controller.States[state]
}

// NewReconciler returns a Reconciler.
func NewReconciler(dependencies Dependencies, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	live := expectations.NewLive(dependencies.Live, dependencies.Writer.Scheme())
	r := &Reconciler{
		Dependencies: dependencies, options: options, clock: options.Clock, versions: expectations.NewObjects(live, options.Clock),
		jobs: expectations.NewOwned(dependencies.Cache, func() client.Object { return &batchv1.Job{} }, expectations.OwnedOptions{
			Version: dependencies.JobsVersion, Live: live, Clock: options.Clock,
		}),
		conflicts: controller.NewConflicts(),
	}
	r.states = controller.NewStates(func() *state { return newState(r.clock.Now()) }, func(key types.NamespacedName, uid types.UID, _ *state) {
		r.Metrics.forget(key)
		r.versions.Forget(string(uid))
		r.jobs.Forget(string(uid))
	})
	return r
}

// Run runs the controllers of the three kinds until the context ends. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, dependencies Dependencies, options Options) error {
	var err error
	if dependencies.JobsVersion, err = expectations.StoreVersion(ctx, cache, &batchv1.Job{}); err != nil {
		return fmt.Errorf("controller %s: %w", Name, err)
	}
	r := NewReconciler(dependencies, options)
	defer r.states.Clear()
	rules, targets := &ruleReconciler{r}, &targetReconciler{r}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range []struct {
		name, logKey string
		reconciler   reconcile.Reconciler
		sources      []source.Source
	}{
		{Name, "mutexrunconfig", r, r.sources(cache)},
		{Name + "-rules", "mutexrule", rules, rules.sources(cache)},
		{Name + "-targets", "mutextarget", targets, targets.sources(cache)},
	} {
		options := controller.Options{Name: c.name, LogKey: c.logKey, MaxBackoff: maxBackoff}
		group.Go(func() error { return controller.Run(ctx, c.reconciler, options, c.sources...) })
	}
	return group.Wait()
}

// reconciliation is what one reconciliation of a MutexRunConfig works on. It does not change; what the steps do and find out is an outcome. The
// objects are the cache's own and must not be changed.
type reconciliation struct {
	*Reconciler
	key    types.NamespacedName
	config *v1alpha1.MutexRunConfig
	state  *state
	now    time.Time
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile takes a run as far as possible.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, config := request.NamespacedName, &v1alpha1.MutexRunConfig{}
	if goesOn, result, err := controller.Begin(ctx, r.Cache, key, config, r.versions, r.states, r.conflicts); !goesOn {
		return result, err
	}
	rc := &reconciliation{Reconciler: r, key: key, config: config, state: r.states.Get(key, config.UID), now: r.clock.Now()}
	return rc.result(ctx, rc.run(ctx))
}

// run observes, plans, applies, and writes the status last.
func (rc *reconciliation) run(ctx context.Context) outcome {
	if rc.config.DeletionTimestamp != nil && (rc.state.finalized || !controllerutil.ContainsFinalizer(rc.config, v1alpha1.Finalizer)) {
		return outcome{}
	}
	run, observed := rc.observe(ctx)
	if observed.Failed {
		return observed
	}
	decision := plan.Decide(run)
	applied := rc.apply(ctx, run, decision)
	out := observed.and(applied)
	if decision.RemoveFinalizer && rc.config.DeletionTimestamp != nil && applied.Denied == "" {
		return out
	}
	return out.and(rc.updateStatus(ctx, run, decision, &applied))
}

// isEnding reports whether no node is to be started, whatever else the spec says.
func (rc *reconciliation) isEnding() bool {
	return rc.config.DeletionTimestamp != nil || rc.config.Spec.Abort || rc.config.Spec.Suspend || paused.Is(rc.config.Annotations) ||
		rc.options.refusal(rc.config.Namespace) != ""
}

// result turns an outcome into what Reconcile returns. What the API server denies is tried again later, without the controller's backoff.
func (rc *reconciliation) result(ctx context.Context, out outcome) (reconcile.Result, error) {
	if out.Denied != "" {
		log.FromContext(ctx).Error(out.Err, "the API server denies a request", "retryAfter", controller.RetryDenied.String())
		out.Requeue.In(controller.RetryDenied)
		out.Conflict, out.Err = false, nil
	}
	return out.Outcome.Result(rc.key, rc.conflicts)
}

// outcome is what one or more steps of a reconciliation have done and found out.
type outcome struct {
	// Outcome has the most important error: an error that a user has to act on, then an error that is retried with a backoff.
	controller.Outcome
	plan.Result
	// config is the MutexRunConfig as it was written; nil if it was not.
	config *v1alpha1.MutexRunConfig
}

// settled is the outcome of a step that has nothing to do.
func settled() outcome { return outcome{Result: plan.Result{Settled: true}} }

// resultOf is the outcome of a step that consists of one request: settled unless it has failed.
func resultOf(err error) outcome {
	out := outcome{Outcome: controller.Failed(err), Result: plan.Result{Settled: err == nil, Failed: err != nil}}
	if status.Classify(err) == status.Denied {
		out.Denied = err.Error()
	}
	return out
}

// unsettled is the outcome of a step that has to be repeated when the cache shows its writes.
func unsettled() outcome { return outcome{Outcome: controller.Waiting(controller.CatchUp)} }

// and returns the outcome of two steps together.
func (o outcome) and(next outcome) outcome {
	// A run may have thousands of errors: one of them counts.
	o.Outcome, o.Err = o.And(next.Outcome), worstOf(o.Err, next.Err)
	o.Settled, o.Failed = o.Settled && next.Settled, o.Failed || next.Failed
	o.Denied, o.ReservedByOther = cmp.Or(o.Denied, next.Denied), cmp.Or(o.ReservedByOther, next.ReservedByOther)
	o.config, o.Nodes = cmp.Or(next.config, o.config), cmp.Or(next.Nodes, o.Nodes)
	conditions := plan.Conditions{}
	maps.Copy(conditions, o.Conditions)
	maps.Copy(conditions, next.Conditions)
	o.Conditions = conditions
	return o
}

// with returns the outcome with another condition.
func (o outcome) with(kind string, met bool, message string) outcome {
	if o.Conditions = maps.Clone(o.Conditions); o.Conditions == nil {
		o.Conditions = plan.Conditions{}
	}
	o.Conditions.Set(kind, met, message)
	return o
}

// unmet determines that a condition is not met, for a step that has failed. A decision on an older object is made again and is no failure.
func (o outcome) unmet(kind string) outcome {
	if o.Err == nil {
		return o
	}
	return o.with(kind, false, o.Err.Error())
}

// worstOf returns the most important of some errors; nil if there is none.
func worstOf(errs ...error) error {
	for _, class := range []status.Class{status.Denied, status.Transient} {
		for _, err := range errs {
			if status.Classify(err) == class {
				return err
			}
		}
	}
	return errors.Join(errs...)
}
