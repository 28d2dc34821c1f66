// Package autoscaling puts the bounds of MachineAutoscalers on MachineSets, as annotations that cluster-autoscaler reads. It replaces the controller
// of MachineAutoscalers of OpenShift's cluster-autoscaler-operator; it does not run cluster-autoscaler.
package autoscaling

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/controller"
)

// Name is the capability's, and the controller's in logs and metrics.
const Name = "autoscaling"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-autoscaling")

// Options configure the controller.
type Options struct {
	// Workers is how many MachineAutoscalers are reconciled at once; less than one counts as one.
	Workers int
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Reconciler reconciles MachineAutoscalers.
type Reconciler struct {
	cache     client.Reader
	live      client.Reader
	writer    client.Client
	recorder  record.EventRecorder
	clock     clock.PassiveClock
	conflicts *controller.Conflicts
	states    *controller.States[state]
}

// state is what the controller knows of a MachineAutoscaler between reconciliations.
type state struct {
	// status is the status that was written last: a CRD of OpenShift's drops the conditions.
	status *v1beta1.MachineAutoscalerStatus
	// lacksAccelerator is what was reported last.
	lacksAccelerator bool
}

// NewReconciler returns a Reconciler. live reads from the API server.
func NewReconciler(cache, live client.Reader, writer client.Client, recorder record.EventRecorder, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Reconciler{
		cache: cache, live: live, writer: writer, recorder: recorder, clock: options.Clock, conflicts: controller.NewConflicts(),
		states: controller.NewStates(func() *state { return &state{} }, nil),
	}
}

// Run runs the controller until the context ends. The caches must be synced.
func Run(
	ctx context.Context, cache ctrlcache.Cache, live client.Reader, writer client.Client, recorder record.EventRecorder, options Options,
) error {
	r := NewReconciler(cache, live, writer, recorder, options)
	return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "machineautoscaler", Workers: options.Workers}, r.sources(cache)...)
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile has the MachineSet that a MachineAutoscaler names have its bounds, and no other MachineSet.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ma := &v1beta1.MachineAutoscaler{}
	if goesOn, result, err := controller.Begin(ctx, r.cache, request.NamespacedName, ma, nil, r.states, r.conflicts); !goesOn {
		return result, err
	}
	observed, err := r.observe(ctx, ma)
	if err != nil {
		return reconcile.Result{}, err
	}
	current, decision := r.states.Get(request.NamespacedName, ma.UID), plan.Decide(observed)
	var requeue controller.Requeue
	next, err := r.apply(ctx, ma, &decision, &requeue)
	var denied *denial
	if errors.As(err, &denied) {
		decision.Target, decision.LacksAccelerator, decision.Reason, decision.Message = nil, false, denied.reason, denied.message
	}
	// There is nothing to say of a MachineAutoscaler that goes.
	if (err == nil || denied != nil) && decision.Reason != "" {
		err = errors.Join(err, r.updateStatus(ctx, next, &decision, current))
	}
	return r.conflicts.Result(request.NamespacedName, requeue, err)
}
