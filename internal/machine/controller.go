// Package machine is the controller of Machines: it creates an instance of each with the provider that serves it, links the Node that the instance
// registers, and deletes both with the Machine. It is the only writer of a Machine's status. The phases come from machine-api-operator:
// https://github.com/openshift/machine-api-operator/blob/master/pkg/controller/machine/controller.go
//
// A reconciliation observes the Machine. Then it decides on one step after another (plan.Next) and carries it out (apply.go, drain.go), until there
// is something to wait for. Last, it sets the status, emits the events and schedules the next attempt (finish).
package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/quorum"
	"github.com/drover-io/drover/provider"
)

// Name is the controller's name in logs and metrics.
const Name = "machine"

// Holder is the identity in the leases of Nodes, of everything that Drover does for Machines.
const Holder = "drover-machines"

// fieldOwner is the field manager of every write.
const fieldOwner = client.FieldOwner("drover-machine")

// maxBackoff is the longest delay after a Machine failed repeatedly: what a provider returns may last.
const maxBackoff = 5 * time.Minute

// Options configure the controller.
type Options struct {
	// Workers is how many Machines are reconciled at once; less than one counts as one. A slow provider occupies one for as long as its call takes.
	Workers int
	// ProviderTimeout bounds one call of a provider; zero is 10 minutes.
	ProviderTimeout time.Duration
	// Settings are what decisions depend on.
	plan.Settings
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Dependencies are what the controller works with.
type Dependencies struct {
	// Cache has the indexes of Index, of nodelink and of the drain engine.
	Cache client.Reader
	// Writer makes all writes.
	Writer client.Client
	// Live reads from the API server itself, where a cache is not good enough.
	Live client.Reader
	// Recorder emits events.
	Recorder record.EventRecorder
	// Actuators are the providers'.
	Actuators *Actuators
	// Engine drains Nodes.
	Engine *engine.Engine
	// Lease is the lease of a Node that every controller acquires which disrupts it, with the holder Holder.
	Lease *nodelease.Leases
	// Guard protects the control plane; nil protects nothing.
	Guard quorum.MachineChecker
	// Metrics are the controller's.
	Metrics *Metrics
}

// Reconciler reconciles Machines.
type Reconciler struct {
	*Dependencies
	finder    nodelink.Finder
	options   Options
	clock     clock.PassiveClock
	versions  *expectations.Objects
	conflicts *controller.Conflicts
	states    *controller.States[state]
	// instances has the Machines whose provider has seen a change of their instance, and that have not been reconciled since.
	instances sync.Map
}

// NewReconciler returns a Reconciler.
func NewReconciler(dependencies *Dependencies, options Options) *Reconciler {
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
	r := &Reconciler{
		Dependencies: dependencies, finder: nodelink.Finder{Reader: dependencies.Cache}, options: options, clock: options.Clock,
		versions:  expectations.NewObjects(expectations.NewLive(dependencies.Live, dependencies.Writer.Scheme()), options.Clock),
		conflicts: controller.NewConflicts(),
	}
	r.states = controller.NewStates(newState, r.end)
	return r
}

// Run runs the controller until the context ends. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, dependencies *Dependencies, options Options) error {
	r := NewReconciler(dependencies, options)
	defer r.states.Clear()
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "machine", Workers: options.Workers, MaxBackoff: maxBackoff},
		r.sources(cache)...)
}

// reconciliation is what one reconciliation of a Machine works on. It does not change; what the steps find out is added to a plan.Input. Objects are
// the cache's own and must not be changed.
type reconciliation struct {
	*Reconciler
	key   types.NamespacedName
	state *state
	// actuator is the provider's; nil if no provider serves the Machine.
	actuator provider.Actuator
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile takes a Machine as far as it can be taken now.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key := request.NamespacedName
	machine := &machinev1beta1.Machine{}
	var requeue controller.Requeue
	err := r.Cache.Get(ctx, key, machine)
	switch {
	case apierrors.IsNotFound(err):
		r.states.Forget(key)
		r.instances.Delete(key)
		err := r.releaseNodes(ctx, key, nil, &requeue)
		return r.conflicts.Result(key, requeue, err)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	current := r.states.Get(key, machine.UID)
	if r.versions.Pending(ctx, machine) {
		controller.KeepBackoff(ctx)
		return reconcile.Result{RequeueAfter: controller.CatchUp}, nil
	}
	if _, changed := r.instances.LoadAndDelete(key); changed {
		current.NextGet = time.Time{}
	}
	actuator, unserved := r.Actuators.of(machine)
	rc := &reconciliation{Reconciler: r, key: key, state: current, actuator: actuator}
	notReleased := rc.releaseFormer(ctx, machine, &requeue)
	err = rc.run(ctx, rc.observe(machine, unserved), &requeue)
	return r.conflicts.Result(key, requeue, errors.Join(err, notReleased))
}

// maxSteps bounds the steps of one reconciliation; no path through plan.Next is as long.
const maxSteps = 30

// run carries out the steps that the plan decides on, one after another: what each finds out is what the next is decided on. The status comes last.
func (rc *reconciliation) run(ctx context.Context, in plan.Input, requeue *controller.Requeue) error {
	for range maxSteps {
		in.Now = rc.clock.Now()
		step := plan.Next(&in)
		if step.Action == plan.Stop {
			return rc.finish(ctx, &in, &step.Wait, requeue)
		}
		var err error
		if in, err = rc.apply(ctx, in, &step); err != nil {
			rc.state.NextGet = time.Time{}
			return err
		}
	}
	return fmt.Errorf("reconciling Machine %s: the plan does not end", rc.key)
}

// finish makes what is waited for known: status, events, metrics, and the next attempt.
func (rc *reconciliation) finish(ctx context.Context, in *plan.Input, wait *plan.Wait, requeue *controller.Requeue) error {
	if !wait.Evicting {
		rc.stopEvictions()
	}
	rc.report(in, wait)
	if wait.Err != nil {
		// What the provider has returned may not be recorded.
		rc.state.NextGet = time.Time{}
	}
	if !wait.Quiet {
		if _, err := rc.writeStatus(ctx, in, wait); err != nil {
			rc.state.NextGet = time.Time{}
			return err
		}
	}
	if wait.KeepsBackoff {
		controller.KeepBackoff(ctx)
	}
	if delay := plan.RequeueAfter(in, wait); delay > 0 {
		requeue.In(delay)
	}
	return wait.Err
}
