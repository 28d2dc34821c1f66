package cluster_test

import (
	"context"
	"errors"
	"fmt"
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

// eventuallyPodsReady waits until the condition Ready of every Pod of a namespace has a status.
func eventuallyPodsReady(t *testing.T, clients kubernetes.Interface, namespace string, want corev1.ConditionStatus) {
	t.Helper()
	eventually(t, fmt.Sprintf("Ready is %s on the Pods of %s", want, namespace), func(ctx context.Context) error {
		pods, err := clients.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status != want {
					return fmt.Errorf("pod %s has %s", pod.Name, condition.Status)
				}
			}
		}
		return nil
	})
}

// eventuallyMonitored waits until the node lifecycle controller has seen a Node: it marks the Pods of one that it has seen Ready before.
func eventuallyMonitored(t *testing.T, clients kubernetes.Interface, node string) {
	t.Helper()
	eventually(t, "the node lifecycle controller monitors "+node, func(ctx context.Context) error {
		events, err := clients.CoreV1().Events("").List(ctx, metav1.ListOptions{
			FieldSelector: "reason=RegisteredNode,involvedObject.kind=Node,involvedObject.name=" + node,
		})
		if err == nil && len(events.Items) == 0 {
			return errors.New("there is no event RegisteredNode")
		}
		return err
	})
}

// TestPods_ReadyAgainWithTheirNode has kube-controller-manager set Ready of Pods to False because their Node is not Ready. A kubelet that is back
// sets it to True.
func TestPods_ReadyAgainWithTheirNode(t *testing.T) {
	clients := clientFor(t, env.Admin(), nil)
	pool := cluster.PoolOptions{Name: "rebooted", Machines: 1, RunningPods: 2}
	createPool(t, pool)
	eventuallyPodsReady(t, clients, pool.PodNamespace(), corev1.ConditionTrue)
	eventuallyMonitored(t, clients, "rebooted-0")
	setNodeReady(t, clients, "rebooted-0", `"false"`)
	eventuallyPodsReady(t, clients, pool.PodNamespace(), corev1.ConditionFalse)
	setNodeReady(t, clients, "rebooted-0", `null`)
	eventuallyPodsReady(t, clients, pool.PodNamespace(), corev1.ConditionTrue)

	// On a busy machine the condition is written when the Node is Ready again already.
	late := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	pods := clients.CoreV1().Pods(pool.PodNamespace())
	_, err := pods.Patch(t.Context(), "rebooted-0-0", types.StrategicMergePatchType, late, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	eventuallyPodsReady(t, clients, pool.PodNamespace(), corev1.ConditionTrue)
}
