package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/status"
)

// apply carries a plan out, and returns the MachineAutoscaler as it is then. The finalizer comes before the bounds and goes after them, so that a
// process that ends in between leaves none behind.
func (r *Reconciler) apply(
	ctx context.Context, ma *v1beta1.MachineAutoscaler, decision *plan.Plan, requeue *controller.Requeue,
) (*v1beta1.MachineAutoscaler, error) {
	if decision.AddFinalizer {
		next, err := r.setFinalizers(ctx, ma, append(slices.Clone(ma.Finalizers), plan.Finalizer))
		if err != nil {
			return ma, err
		}
		ma = next
	}
	// One MachineSet that cannot be changed does not keep the others from it.
	var errs []error
	for i := range decision.Releases {
		err := r.change(ctx, &decision.Releases[i], EventFinalizeTarget, "Error finalizing target")
		if status.Classify(err) != status.Gone {
			errs = append(errs, err)
		}
	}
	if decision.Update != nil {
		err := r.change(ctx, decision.Update, EventUpdateTarget, "Error updating target")
		if err == nil {
			r.recorder.Event(ma, corev1.EventTypeNormal, EventUpdated, decision.Message)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return ma, err
	}
	if decision.RemoveFinalizer {
		released, err := r.isReleased(ctx, ma)
		if err != nil || !released {
			requeue.In(controller.CatchUp)
			return ma, err
		}
		left := slices.DeleteFunc(slices.Clone(ma.Finalizers), func(finalizer string) bool { return finalizer == plan.Finalizer })
		return r.setFinalizers(ctx, ma, left)
	}
	return ma, nil
}

// setFinalizers writes the finalizers in a patch that fails if the MachineAutoscaler has changed.
func (r *Reconciler) setFinalizers(ctx context.Context, ma *v1beta1.MachineAutoscaler, finalizers []string) (*v1beta1.MachineAutoscaler, error) {
	next := ma.DeepCopy()
	next.Finalizers = finalizers
	if err := r.writer.Patch(ctx, next, controller.GuardedPatch(ma), FieldOwner); err != nil {
		return ma, fmt.Errorf("writing the finalizer of MachineAutoscaler %s/%s: %w", ma.Namespace, ma.Name, err)
	}
	return next, nil
}

// denial is the API server's answer that it does not allow a change of a MachineSet.
type denial struct {
	error

	// reason and message are for the condition and the event.
	reason, message string
}

// Unwrap returns the answer.
func (d *denial) Unwrap() error { return d.error }

// change writes the annotations of a MachineSet in a patch that fails if it has changed: another MachineAutoscaler may have taken it.
func (r *Reconciler) change(ctx context.Context, change *plan.Change, reason, text string) error {
	next := change.Set.DeepCopy()
	next.Annotations = change.Annotations
	err := r.writer.Patch(ctx, next, controller.GuardedPatch(change.Set), FieldOwner)
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("changing the bounds of MachineSet %s/%s: %w", next.Namespace, next.Name, err)
	if status.Classify(err) == status.Denied {
		return &denial{wrapped, reason, fmt.Sprintf("%s: %v", text, err)}
	}
	return wrapped
}
