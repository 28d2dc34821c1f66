package maintenance

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

// silent makes a node whose kubelet is silent, with a pod that it does not end.
func silent(s *harness.Site) (node string, pod corev1.Pod) {
	s.Helper()
	node = s.AddNode()
	pod = s.Pod("stuck", harness.Pods{Node: node, Grace: 1, Ends: harness.Never, Tolerant: true})
	s.Unreachable(node)
	return node, pod
}

func TestNodeDown_PodsIgnoredOnRequest(t *testing.T) {
	s := site(t)
	node, pod := silent(s)
	m := s.Maintain(node, &medik8s.DrainSpec{Unreachable: medik8s.UnreachableIgnore})
	m.Phase(medik8s.PhaseSucceeded)
	m.Condition(plan.ConditionDrained, "Drained", "1 on an unreachable node")
	if now := s.GetPod("stuck"); now.UID != pod.UID || now.DeletionTimestamp == nil {
		t.Error("the pod was not evicted, or is gone")
	}
	if err := harness.Has(s.Node(node), nil, nil, outOfService); err == nil {
		t.Error("the node has the taint out-of-service, although no option asks for it")
	}
}

// TestNodeDown_OutOfServiceTaint lets kube-controller-manager forget the pods.
func TestNodeDown_OutOfServiceTaint(t *testing.T) {
	s := site(t)
	node, _ := silent(s)
	before := looks(s.Node(node))
	m := s.Maintain(node, &medik8s.DrainSpec{Unreachable: medik8s.UnreachableOutOfService})
	s.AwaitNode(node, "taint out-of-service", func(n *corev1.Node) error { return harness.Has(n, nil, nil, outOfService) })
	s.Eventually("the pod is forgotten", func() error {
		if left := s.Pods("stuck"); len(left) > 0 {
			return fmt.Errorf("it is there, and ends at %s", left[0].DeletionTimestamp)
		}
		return nil
	})
	m.Phase(medik8s.PhaseSucceeded)
	if err := inMaintenance(s.Node(node)); err != nil {
		t.Error(err)
	}
	m.End()
	givenBack(s, node, before)
}

// TestNodeDown_OutOfServiceTaintInSpiteOfBudget: of a node that is off no eviction can be answered, and no budget allows one.
func TestNodeDown_OutOfServiceTaintInSpiteOfBudget(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("needed", harness.Pods{Node: node, Grace: 1, Ends: harness.Never, Tolerations: []corev1.Toleration{
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists},
	}})
	s.Budget("needed", "needed", harness.MinAvailable(1))
	s.Unreachable(node)
	s.Eventually("it has been off for an hour", func() error {
		off := s.Node(node)
		for i := range off.Status.Conditions {
			off.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
		}
		return s.Client.Status().Update(t.Context(), off)
	})
	m := s.Maintain(node, &medik8s.DrainSpec{Unreachable: medik8s.UnreachableOutOfService})
	s.AwaitNode(node, "taint out-of-service", func(n *corev1.Node) error { return harness.Has(n, nil, nil, outOfService) })
	m.Phase(medik8s.PhaseSucceeded)
	m.End()
}

// TestNodeDown_WaitsForVolumes: the maintenance waits until volumes are detached, except the volumes of pods that stay.
func TestNodeDown_WaitsForVolumes(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Volume(s.Name+"-kept", "kept")
	s.Volume(s.Name+"-moved", "moved")
	s.Pod("staying", harness.Pods{Node: node, Claim: "kept"})
	s.Pod("leaving", harness.Pods{Node: node, Claim: "moved"})
	s.Attach(s.Name+"-kept", node)
	attached := s.Attach(s.Name+"-moved", node)
	m := s.Maintain(node, &medik8s.DrainSpec{WaitForVolumes: true, PodRules: []medik8s.PodRule{{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{harness.AppLabel: "staying"}}, Behavior: medik8s.BehaviorSkip,
	}}})
	status := m.Condition(plan.ConditionDrained, "VolumesAttached", "1 volumes are still attached: "+s.Name+"-moved")
	if status.Phase != medik8s.PhaseRunning || len(status.PendingPods) != 0 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	detached := time.Now()
	if err := s.Client.Delete(t.Context(), attached); err != nil {
		t.Fatal(err)
	}
	m.Phase(medik8s.PhaseSucceeded)
	t.Logf("drained %s after the volume was detached", time.Since(detached).Round(time.Millisecond))
}

func TestNodeDown_VolumeTimeout(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Attach(s.Name+"-stuck", node)
	m := s.Maintain(node, &medik8s.DrainSpec{WaitForVolumes: true, VolumesTimeout: duration(4 * time.Second)})
	m.Condition(plan.ConditionDrained, "VolumesAttached", s.Name+"-stuck")
	m.Phase(medik8s.PhaseSucceeded)
	if took := time.Since(since(s, node)); took < 4*time.Second {
		t.Errorf("it was called drained %s after the cordon", took)
	}
}
