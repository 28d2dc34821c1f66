package node

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

// testNodeGroup has real kubelets end the Pods that do not tolerate the taint of a NodeGroup, within their budget, before the node gets it; the node
// is as it was when the group is gone.
func testNodeGroup(t *testing.T) {
	w := world(t)
	was := openShop(w)
	open := watch(w)
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "real"}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: first}}
	group.Spec.Metadata = &v1alpha1.Metadata{
		Taints: []v1alpha1.Taint{{Key: "example.com/dedicated", Effect: corev1.TaintEffectNoExecute}}, OnRelease: v1alpha1.ReleaseRemove,
	}
	w.CreateWithCleanup(group)
	w.AwaitNode(first, "has the taint", func(node *corev1.Node) error {
		if taints := harness.Taints(node); len(taints) != 1 || taints[0] != "example.com/dedicated=:NoExecute" {
			return fmt.Errorf("taints %v", taints)
		}
		return nil
	})
	on(w, second, 2)
	if fewest, asked := open(); fewest != 1 || asked != len(was) {
		t.Errorf("%d of the Pods were asked to end, and at one time %d were ready, want 1", asked, fewest)
	}
	if err := w.Client.Delete(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	w.AwaitNode(first, "is as it was", func(node *corev1.Node) error {
		if len(node.Spec.Taints) > 0 || node.Annotations["drover.dev/group-owned-metadata"] != "" {
			return fmt.Errorf("taints %v, annotations %v", harness.Taints(node), node.Annotations)
		}
		return nil
	})
	w.NoLease(first)
	ready(w)
}
