package nodegroup

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// pod creates a Pod that no scheduler looks at, and deletes it when the test ends.
func (f *fixture) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	f.Helper()
	// The controller that makes service accounts does not run here.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "default"}}
	if err := f.Client.Create(f.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		f.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.PodSpec{
		SchedulerName: "test", Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
	}}
	change(pod)
	if err := f.Client.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := f.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			f.Errorf("deleting Pod %s: %v", name, err)
		}
	})
	return pod
}

// TestRollout_NeedsConfirm: a label that Pods require is taken away only when a user has confirmed that; other labels need no confirmation.
func TestRollout_NeedsConfirm(t *testing.T) {
	f := besideOthers(t, "confirm", 3)
	f.create(f.newGroup("confirm", withLabel("example.com/disk", "ssd"), withRelease(v1alpha1.ReleaseRemove)))
	f.pod("confirm-db", func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Spec.NodeSelector = "confirm-01", map[string]string{"example.com/disk": "ssd"}
	})
	f.eventuallyCondition("confirm", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.update("confirm", withLabel("example.com/team", "blue"))
	f.eventuallyNode("confirm-02", "has another label", hasLabel("example.com/team", "blue"))
	f.update("confirm", func(spec *v1alpha1.NodeGroupSpec) { delete(spec.Metadata.Labels, "example.com/disk") })
	group := f.eventuallyCondition("confirm", v1alpha1.ConditionBlocked, metav1.ConditionTrue, plan.ReasonNeedsConfirm)
	if group.Status.Phase != v1alpha1.PhaseStopped || group.Status.Pending != 3 {
		t.Errorf("status is %s", harness.JSON(group.Status))
	}
	f.AwaitEvent("NodeGroup", "confirm", "RolloutStopped", "Pod default/confirm-db")
	if err := hasLabel("example.com/disk", "ssd")(f.Node("confirm-00")); err != nil {
		t.Error(err)
	}
	if output, code := plugin.Run(f.World, "rollout", "resume", "nodegroup/confirm", "--confirm-label-changes=example.com/disk"); code != 0 {
		t.Fatal(output)
	}
	f.eventuallyCondition("confirm", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	if value, found := f.Node("confirm-01").Labels["example.com/disk"]; found {
		t.Errorf("the label is still %q", value)
	}
}

// TestRollout_StopsWhenPodsArePending: Pods that fit the Nodes and find none stop a roll-out, and it goes on when a user resumes it.
func TestRollout_StopsWhenPodsArePending(t *testing.T) {
	f := newFixture(t, "pending", 3)
	operator := f.Operator(harness.Options{})
	f.create(f.newGroup("pending", withLabel("example.com/team", "blue"), withWaves(1, 1, 0), func(spec *v1alpha1.NodeGroupSpec) {
		spec.Rollout.StopWhen = &v1alpha1.StopConditions{PendingPods: new(int32(1))}
	}))
	f.eventuallyCondition("pending", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.update("pending", func(spec *v1alpha1.NodeGroupSpec) {
		withLabel("example.com/team", "red")(spec)
		spec.DryRun = true
	})
	group := f.eventuallyCondition("pending", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonDryRun)
	// The roll-out began long ago, and the Pod has waited for a part of that time. It would write the Nodes at once, which are younger, but for the dry
	// run. An operator that runs would overwrite the time.
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	began := fmt.Appendf(nil, `{"status":{"rollout":{"startTime":%q}}}`, now.Add(-time.Hour).UTC().Format(time.RFC3339))
	if err := f.Client.Status().Patch(t.Context(), group, client.RawPatch(types.MergePatchType, began)); err != nil {
		t.Fatal(err)
	}
	f.Operator(harness.Options{})
	pod := f.pod("pending-web", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{labelPool: "pending"} })
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		LastTransitionTime: metav1.NewTime(now.Add(-10 * time.Minute)),
	}}
	if err := f.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.eventuallyCondition("pending", v1alpha1.ConditionBlocked, metav1.ConditionTrue, rollout.ReasonPodsPending)
	f.AwaitEvent("NodeGroup", "pending", "RolloutStopped", "default/pending-web")
	output, code := plugin.Run(f.World, "rollout", "status", "nodegroup/pending")
	if code == 0 {
		t.Errorf("rollout status says %q", output)
	}
	if output, code = plugin.Run(f.World, "rollout", "resume", "nodegroup/pending"); code != 0 {
		t.Fatal(output)
	}
	f.update("pending", func(spec *v1alpha1.NodeGroupSpec) { spec.DryRun = false })
	f.eventuallyCondition("pending", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
}
