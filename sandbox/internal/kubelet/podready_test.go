package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
	return corev1.PodCondition{Type: kind, Status: status}
}

func TestLostReady(t *testing.T) {
	const gate corev1.PodConditionType = "example.com/gate"
	for name, test := range map[string]struct {
		change func(pod *corev1.Pod)
		want   bool
	}{
		"node lifecycle controller set Ready to False: lost": {change: func(*corev1.Pod) {}, want: true},
		"Ready: kept": {change: func(pod *corev1.Pod) {
			pod.Status.Conditions[0].Status = corev1.ConditionTrue
		}},
		"containers not ready: not the node's doing": {change: func(pod *corev1.Pod) {
			pod.Status.Conditions[1].Status = corev1.ConditionFalse
		}},
		"pending: never ready": {change: func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending }},
		"being deleted: left alone": {change: func(pod *corev1.Pod) {
			pod.DeletionTimestamp = &metav1.Time{}
		}},
		"readiness gate missing: not ready": {change: func(pod *corev1.Pod) {
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
		}},
		"readiness gate True: lost": {change: func(pod *corev1.Pod) {
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
			pod.Status.Conditions = append(pod.Status.Conditions, condition(gate, corev1.ConditionTrue))
		}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				condition(corev1.PodReady, corev1.ConditionFalse), condition(corev1.ContainersReady, corev1.ConditionTrue),
			}}}
			test.change(pod)
			if got := lostReady(pod); got != test.want {
				t.Errorf("lostReady is %t, want %t", got, test.want)
			}
		})
	}
}

func TestIsPlayedAndReady(t *testing.T) {
	for name, test := range map[string]struct {
		annotation string
		status     corev1.ConditionStatus
		want       bool
	}{
		"kwok's and Ready":          {annotation: nodeAnnotationValue, status: corev1.ConditionTrue, want: true},
		"kwok's and not Ready":      {annotation: nodeAnnotationValue, status: corev1.ConditionFalse},
		"kwok's and silent":         {annotation: nodeAnnotationValue, status: corev1.ConditionUnknown},
		"a real kubelet's":          {status: corev1.ConditionTrue},
		"another value than kwok's": {annotation: "real", status: corev1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{nodeAnnotation: test.annotation}},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.status}}},
			}
			if got := isPlayedAndReady(node); got != test.want {
				t.Errorf("isPlayedAndReady is %t, want %t", got, test.want)
			}
		})
	}
}
