package nodestate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReady(t *testing.T) {
	since := metav1.NewTime(time.Unix(1000, 0))
	node := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: status, LastTransitionTime: since},
		}}}
	}
	for name, c := range map[string]struct {
		node   *corev1.Node
		ready  bool
		change time.Time
	}{
		"no Node":   {},
		"no status": {node: &corev1.Node{}},
		"True":      {node: node(corev1.ConditionTrue), ready: true, change: since.Time},
		"Unknown":   {node: node(corev1.ConditionUnknown), change: since.Time},
	} {
		if ready, change := IsReady(c.node), ReadyChange(c.node); ready != c.ready || !change.Equal(c.change) {
			t.Errorf("%s: ready %t since %s", name, ready, change)
		}
	}
}

func TestIsControlPlane(t *testing.T) {
	for label, want := range map[string]bool{LabelControlPlane: true, LabelMaster: true, "node-role.kubernetes.io/worker": false} {
		if got := IsControlPlane(map[string]string{label: ""}); got != want {
			t.Errorf("%s: %t", label, got)
		}
	}
}
