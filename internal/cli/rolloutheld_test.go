package cli

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// TestRolloutStatus_HeldReasonGoes: a roll-out has not failed because of a reason that Drover finds gone a moment later, such as a
// PodDisruptionBudget that a user has just relaxed.
func TestRolloutStatus_HeldReasonGoes(t *testing.T) {
	group := (&fakeCluster{}).group("batch", "blue", nil)
	setStatus := func(ready metav1.ConditionStatus, reason string) {
		group.Status = v1alpha1.NodeGroupStatus{ObservedGeneration: group.Generation, Phase: v1alpha1.PhaseWaiting}
		meta.SetStatusCondition(&group.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionProgressing, Status: metav1.ConditionFalse, Reason: plan.ReasonComplete,
		})
		meta.SetStatusCondition(&group.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: "a Pod stays",
		})
	}
	setStatus(metav1.ConditionFalse, plan.ReasonNoExecuteHeld)
	gets := 0
	on := cluster(interceptor.Funcs{Get: func(
		ctx context.Context, inner client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption,
	) error {
		if found, ok := into.(*v1alpha1.NodeGroup); ok {
			// The first is for the name, the second for the status.
			if gets++; gets == 3 {
				setStatus(metav1.ConditionTrue, plan.ReasonSynced)
			}
			group.DeepCopyInto(found)
			return nil
		}
		return inner.Get(ctx, key, into, options...)
	}}, group)
	runOn(t, on, "", "rollout", "status", "nodegroup/batch").says(t, 0, "successfully rolled out")
	gets = 10
	setStatus(metav1.ConditionFalse, plan.ReasonNoExecuteHeld)
	runOn(t, on, "", "rollout", "status", "nodegroup/batch", "--watch=false").says(t, 1, "a Pod stays")
}
