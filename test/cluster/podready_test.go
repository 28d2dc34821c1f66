package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/cluster"
)

// setNodeReady has kwok report a Node as Ready or as not Ready.
func setNodeReady(t *testing.T, clients kubernetes.Interface, node, ready string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, cluster.ReadyAnnotation, ready)
	if _, err := clients.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventuallyPodsReady waits until the condition Ready of every Pod of a Node has a status.
func eventuallyPodsReady(t *testing.T, clients kubernetes.Interface, node string, want corev1.ConditionStatus) {
	t.Helper()
	eventually(t, fmt.Sprintf("Ready is %s on the Pods of %s", want, node), func(ctx context.Context) error {
		pods, err := clients.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == want }) {
				return fmt.Errorf("pod %s has the conditions %v", pod.Name, pod.Status.Conditions)
			}
		}
		return nil
	})
}

// markPodsNotReady does what the node lifecycle controller does to the Pods of a Node that is not Ready (MarkPodsNotReady in
// k8s.io/kubernetes/pkg/controller/util/node): it changes the status of the condition Ready and nothing else. Which Pods it changes depends on when
// it runs.
func markPodsNotReady(t *testing.T, clients kubernetes.Interface, node string) {
	t.Helper()
	pods, err := clients.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) == 0 {
		t.Fatalf("node %s has no Pods", node)
	}
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	for _, pod := range pods.Items {
		_, err := clients.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
}

// eventuallyNodeReady waits until the condition Ready of a Node has a status.
func eventuallyNodeReady(t *testing.T, clients kubernetes.Interface, name string, want corev1.ConditionStatus) {
	t.Helper()
	eventually(t, fmt.Sprintf("Ready is %s on Node %s", want, name), func(ctx context.Context) error {
		node, err := clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady && c.Status == want }) {
			return fmt.Errorf("it has the conditions %v", node.Status.Conditions)
		}
		return nil
	})
}

// TestPods_ReadyAgainWithTheirNode marks Pods as not Ready while their Node is not, and when it is Ready again already, as happens on a busy machine.
// A kubelet that is back sets their condition Ready to True.
func TestPods_ReadyAgainWithTheirNode(t *testing.T) {
	clients := clientFor(t, env.Admin(), nil)
	const node = "rebooted-0"
	createPool(t, cluster.PoolOptions{Name: "rebooted", Machines: 1, RunningPods: 2})
	eventuallyPodsReady(t, clients, node, corev1.ConditionTrue)

	setNodeReady(t, clients, node, `"false"`)
	eventuallyNodeReady(t, clients, node, corev1.ConditionFalse)
	markPodsNotReady(t, clients, node)
	setNodeReady(t, clients, node, `null`)
	eventuallyPodsReady(t, clients, node, corev1.ConditionTrue)

	markPodsNotReady(t, clients, node)
	eventuallyPodsReady(t, clients, node, corev1.ConditionTrue)
}
