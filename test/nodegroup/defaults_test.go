package nodegroup

import (
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestRollout_Defaults: a group without spec.rollout uses the configuration's rollout. A group with its own spec.rollout uses nothing of it.
func TestRollout_Defaults(t *testing.T) {
	f := newFixture(t, "defaults", 3)
	f.Operator(harness.Options{Args: []string{harness.WithConfig(t, "nodeGroups: {rollout: {maxInFlight: 1, pause: 1h}}")}})
	f.create(f.newGroup("defaults", withLabel("example.com/team", "blue")))
	group := f.eventuallyCondition("defaults", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonPausing)
	if status := group.Status.Rollout; status.Wave != "2/3" {
		t.Errorf("rollout is %s", harness.JSON(status))
	}
	for node, value := range map[string]string{"defaults-00": "blue", "defaults-01": "", "defaults-02": ""} {
		if err := hasLabel("example.com/team", value)(f.Node(node)); err != nil {
			t.Errorf("Node %s: %v", node, err)
		}
	}
	if group.Spec.Rollout != nil {
		t.Errorf("the spec has got %s", harness.JSON(group.Spec.Rollout))
	}
	// In full, as the API server would complete it: otherwise each reconciliation would write it again.
	want := v1alpha1.Rollout{
		MaxInFlight: new(intstr.FromInt32(1)), Pause: &metav1.Duration{Duration: time.Hour}, ReleaseDelay: &metav1.Duration{Duration: time.Minute},
		StopWhen:  &v1alpha1.StopConditions{NotReady: new(intstr.FromString("10%"))},
		NoExecute: &v1alpha1.NoExecute{Policy: v1alpha1.NoExecuteGuard, OnTimeout: v1alpha1.TimeoutHold},
	}
	if got := group.Status.DefaultRollout; !apiequality.Semantic.DeepEqual(got, &want) {
		t.Errorf("status.defaultRollout is %s, want %s", harness.JSON(got), harness.JSON(want))
	}
	f.update("defaults", func(spec *v1alpha1.NodeGroupSpec) { spec.Rollout = &v1alpha1.Rollout{} })
	f.eventuallyCondition("defaults", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
}
