// Package capacity maintains the annotations of MachineSets from which cluster-autoscaler reads what their Nodes will have. It needs that to
// scale them from zero. In machine-api-operator, each provider has such a controller of its own.
//
// The controller is separate from package machineset, so that a slow or failing provider does not delay Machines.
package capacity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	capacityplan "github.com/drover-io/drover/internal/machineset/capacity/plan"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/provider"
)

// Name is the controller's name in logs and metrics.
const Name = "machineset-capacity"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-machineset-capacity")

const (
	// askInterval is how often a provider is asked again although the template has not changed: a template of virtual machines may have.
	askInterval = time.Hour
	// askTimeout is how long a provider may take to answer.
	askTimeout = time.Minute
	// tolerance is how many errors in a row it takes until they are reported: a provider may be starting.
	tolerance = 3
	// maxBackoff is the longest delay after a provider failed repeatedly.
	maxBackoff = 10 * time.Minute
)

// Options configure the controller.
type Options struct {
	// Workers is how many MachineSets are reconciled at once; less than one counts as one.
	Workers int
	// Provider returns what knows the capacity of a MachineSet; nil if its provider does not. It returns an error for a template that no provider
	// serves.
	Provider func(*machinev1beta1.MachineSet) (provider.CapacityProvider, error)
	// Protected are the keys that Drover does not apply to Nodes; the zero value is none.
	Protected capacityplan.Protected
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Reconciler reconciles the annotations of MachineSets.
type Reconciler struct {
	cache     client.Reader
	writer    client.Client
	recorder  record.EventRecorder
	options   Options
	conflicts *controller.Conflicts
	states    *controller.States[state]
}

// state is what a provider has answered about a MachineSet.
type state struct {
	// template identifies the template that the provider was asked about, and until is when it is asked again.
	template [sha256.Size]byte
	until    time.Time
	// capacity is the answer; nil if the provider does not know.
	capacity *provider.Capacity
	// failures counts the answers that were errors, in a row.
	failures int
	// problem is why there is no answer, as an event has reported it.
	problem string
}

// NewReconciler returns a Reconciler.
func NewReconciler(cache client.Reader, writer client.Client, recorder record.EventRecorder, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Reconciler{
		cache: cache, writer: writer, recorder: recorder, options: options, conflicts: controller.NewConflicts(),
		states: controller.NewStates(func() *state { return &state{} }, nil),
	}
}

// Run runs the controller until the context ends. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, writer client.Client, recorder record.EventRecorder, options Options) error {
	r := NewReconciler(cache, writer, recorder, options)
	settings := controller.Options{Name: Name, LogKey: "machineset", Workers: options.Workers, MaxBackoff: maxBackoff}
	return controller.Run(ctx, r, settings, sources(cache)...)
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile has the annotations of a MachineSet say what its provider says.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &machinev1beta1.MachineSet{}
	if goesOn, result, err := controller.Begin(ctx, r.cache, request.NamespacedName, set, nil, r.states, r.conflicts); !goesOn {
		return result, err
	}
	if set.DeletionTimestamp != nil || plan.AuthorityOf(set) != plan.MachineAPI || paused.By(set) != "" {
		return reconcile.Result{}, nil
	}
	source, err := r.options.Provider(set)
	if err != nil {
		// The Machines show what is wrong with the template.
		return reconcile.Result{}, nil //nolint:nilerr // the event of a template that is corrected comes here again
	}
	var capacity *provider.Capacity
	var requeue controller.Requeue
	if source != nil {
		current := r.states.Get(request.NamespacedName, set.UID)
		if wait, err := r.ask(ctx, set, source, current); wait > 0 || err != nil {
			return reconcile.Result{RequeueAfter: wait}, err
		}
		requeue.In(current.until.Sub(r.options.Clock.Now()))
		if capacity = current.capacity; capacity == nil {
			return reconcile.Result{RequeueAfter: requeue.Delay()}, nil
		}
	}
	return r.conflicts.Result(request.NamespacedName, requeue, r.apply(ctx, set, capacity))
}

// ask asks the provider if its last answer is about another template, or an hour old. It returns how soon to ask again if the provider asks to wait.
func (r *Reconciler) ask(
	ctx context.Context, set *machinev1beta1.MachineSet, source provider.CapacityProvider, current *state,
) (wait time.Duration, err error) {
	template, err := hashOf(set)
	now := r.options.Clock.Now()
	if err != nil || current.template == template && now.Before(current.until) {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	capacity, err := source.Capacity(ctx, set)
	if wait, waits := provider.AsRequeueAfter(err); waits {
		controller.KeepBackoff(ctx)
		return max(wait, time.Second), nil
	}
	problem := ""
	switch {
	case err != nil && !isFinal(err):
		// What is known stays. The annotations are kept, with what a user changes in them, when the provider answers again.
		if current.failures++; current.failures == tolerance {
			r.report(set, current, messageFailed+err.Error())
		}
		return 0, fmt.Errorf("asking the provider for the capacity: %w", err)
	case err != nil:
		capacity, problem = nil, messageFailed+err.Error()
	case capacity == nil:
		problem = messageUnknown
	}
	r.report(set, current, problem)
	current.template, current.capacity, current.until, current.failures = template, capacity, now.Add(askInterval), 0
	return 0, nil
}

// isFinal reports whether an error is the same until the template changes.
func isFinal(err error) bool {
	var typed *provider.Error
	return errors.As(err, &typed) && typed.Reason == machinev1beta1.InvalidConfigurationMachineError
}

// report emits an event for a problem that is not the one reported last.
func (r *Reconciler) report(set *machinev1beta1.MachineSet, current *state, problem string) {
	if problem != "" && problem != current.problem {
		r.recorder.Event(set, corev1.EventTypeWarning, EventFailed, problem)
	}
	current.problem = problem
}

// hashOf identifies the template of a MachineSet.
func hashOf(set *machinev1beta1.MachineSet) (hash [sha256.Size]byte, err error) {
	text, err := json.Marshal(set.Spec.Template)
	if err != nil {
		return hash, fmt.Errorf("reading the template: %w", err)
	}
	return sha256.Sum256(text), nil
}

// apply writes what differs, in one patch that fails if the MachineSet has changed.
func (r *Reconciler) apply(ctx context.Context, set *machinev1beta1.MachineSet, capacity *provider.Capacity) error {
	annotations, changed := capacityplan.Annotations(set, capacity, r.options.Protected)
	if !changed {
		return nil
	}
	next := set.DeepCopy()
	next.Annotations = annotations
	if err := r.writer.Patch(ctx, next, controller.GuardedPatch(set), FieldOwner); err != nil {
		return fmt.Errorf("writing the capacity to MachineSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return nil
}
