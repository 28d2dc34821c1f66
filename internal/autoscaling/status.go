package autoscaling

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/status"
)

// updateStatus is the only writer of the status. It emits an event when the condition has another reason or message.
func (r *Reconciler) updateStatus(ctx context.Context, ma *v1beta1.MachineAutoscaler, decision *plan.Plan, current *state) error {
	if decision.LacksAccelerator && !current.lacksAccelerator {
		r.recorder.Eventf(ma, corev1.EventTypeWarning, EventAccelerator,
			"MachineSet %s/%s has GPUs, and its template has no valid label cluster-api/accelerator", ma.Namespace, decision.Target.Name)
	}
	current.lacksAccelerator = decision.LacksAccelerator
	before := ma.Status
	if current.status != nil && len(before.Conditions) == 0 {
		// The CRD drops conditions: what was written last is what the status would be.
		before.Conditions = current.status.Conditions
	}
	after, changed := statusAfter(&before, ma, decision, r.clock.Now())
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	next := ma.DeepCopy()
	next.Status = after
	if err := r.writer.Status().Patch(ctx, next, controller.GuardedPatch(ma), FieldOwner); err != nil {
		return fmt.Errorf("writing the status of MachineAutoscaler %s/%s: %w", ma.Namespace, ma.Name, err)
	}
	current.status = &after
	if changed && decision.Target == nil && decision.Reason != plan.ReasonPaused {
		r.recorder.Event(ma, corev1.EventTypeWarning, decision.Reason, status.Shorten(decision.Message, status.MaxMessage))
	}
	return nil
}

// statusAfter returns the status, and whether the condition has another reason or message.
func statusAfter(
	before *v1beta1.MachineAutoscalerStatus, ma *v1beta1.MachineAutoscaler, decision *plan.Plan, now time.Time,
) (after v1beta1.MachineAutoscalerStatus, changed bool) {
	after = *before.DeepCopy()
	condition := metav1.Condition{
		Type: plan.ConditionReady, Status: metav1.ConditionFalse, Reason: decision.Reason, Message: status.Shorten(decision.Message, status.MaxMessage),
		ObservedGeneration: ma.Generation, LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	}
	if decision.Target != nil {
		condition.Status = metav1.ConditionTrue
		after.LastTargetRef = ma.Spec.ScaleTargetRef.DeepCopy()
	}
	was := meta.FindStatusCondition(after.Conditions, plan.ConditionReady)
	changed = was == nil || was.Reason != condition.Reason || was.Message != condition.Message
	meta.SetStatusCondition(&after.Conditions, condition)
	return after, changed
}
