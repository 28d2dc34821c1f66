package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"syscall"
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
			if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == want }) {
				return fmt.Errorf("pod %s has the conditions %v", pod.Name, pod.Status.Conditions)
			}
		}
		return nil
	})
}

// eventuallyTainted waits until the node lifecycle controller has seen that a Node is not Ready.
func eventuallyTainted(t *testing.T, clients kubernetes.Interface, name string) {
	t.Helper()
	eventually(t, "the node lifecycle controller taints "+name, func(ctx context.Context) error {
		node, err := clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoExecute {
				return nil
			}
		}
		return fmt.Errorf("it has the taints %v", node.Spec.Taints)
	})
}

// signalControllerManager stops kube-controller-manager, or has it go on.
func signalControllerManager(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := env.Kill(cluster.ControllerManager, sig); err != nil {
		t.Fatal(err)
	}
}

// TestPods_ReadyAgainWithTheirNode has kube-controller-manager set Ready of Pods to False because their Node is not Ready. It does that to Pods that
// are new to it; it is stopped meanwhile, so that they are Ready when it sees them. A kubelet that is back sets Ready to True.
func TestPods_ReadyAgainWithTheirNode(t *testing.T) {
	clients := clientFor(t, env.Admin(), nil)
	pool := cluster.PoolOptions{Name: "rebooted", Machines: 1}
	createPool(t, pool)
	setNodeReady(t, clients, "rebooted-0", `"false"`)
	eventuallyTainted(t, clients, "rebooted-0")

	signalControllerManager(t, syscall.SIGSTOP)
	t.Cleanup(func() { signalControllerManager(t, syscall.SIGCONT) })
	pool.RunningPods = 2
	if err := cluster.CreatePool(t.Context(), env.Admin(), pool); err != nil {
		t.Fatal(err)
	}
	eventuallyPodsReady(t, clients, pool.PodNamespace(), corev1.ConditionTrue)
	signalControllerManager(t, syscall.SIGCONT)
	eventuallyPodsReady(t, clients, pool.PodNamespace(), corev1.ConditionFalse)

	setNodeReady(t, clients, "rebooted-0", `null`)
	eventuallyPodsReady(t, clients, pool.PodNamespace(), corev1.ConditionTrue)
}
