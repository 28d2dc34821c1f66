package upgrade

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

const annotationPrefix = "machineconfiguration.openshift.io/"

// released returns a stage on which the first node has been released, and the pod web of it has a budget that allows nothing.
func newReleased(t *testing.T) *fixture {
	t.Helper()
	labels := map[string]string{"app": "web"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "uid-of-web-0", Labels: labels}, Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	elsewhere := pod.DeepCopy()
	elsewhere.Name, elsewhere.UID, elsewhere.Spec.NodeName = "web-1", "uid-of-web-1", "n2"
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MinAvailable: new(intstr.FromInt32(2))},
		Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2, ExpectedPods: 2},
	}
	f := newFixture(t, append(newObjects(), pod, elsewhere, budget)...)
	for range 30 {
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		if n := f.nodeStatus("n1"); n != nil && n.Phase == v1alpha1.NodeReleased {
			return f
		}
		f.finishJobs()
	}
	t.Fatal("no node is released")
	return nil
}

// report writes what the machine-config-operator reports on node n1.
func (f *fixture) report(state, desiredDrain, lastAppliedDrain string) {
	update(f, newNode("n1", "infra"), func(n *corev1.Node) {
		for key, value := range map[string]string{
			"state": state, "reason": "", "currentConfig": "rendered-1", "desiredConfig": "rendered-2", "desiredDrain": desiredDrain,
			"lastAppliedDrain": lastAppliedDrain,
		} {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, annotationPrefix+key, value)
		}
	})
}

func TestReleasedNode_DrainBlocked(t *testing.T) {
	f := newReleased(t)
	f.advance(2*time.Second, time.Second)
	if message := f.nodeStatus("n1").Message; !strings.Contains(message, "has not started to update the node") {
		t.Errorf("before the machine-config-operator begins: %q", message)
	}
	f.report("Working", "drain-rendered-2", "uncordon-rendered-1")
	f.advance(3*time.Second, time.Second)
	n := f.nodeStatus("n1")
	for _, want := range []string{"machine-config-operator reports Working", "1 pod left", "shop/web ", "shop/web-0"} {
		if n.Phase != v1alpha1.NodeUpgrading || !strings.Contains(n.Message, want) {
			t.Errorf("the node is %s, %q, without %q", n.Phase, n.Message, want)
		}
	}
	if strings.Contains(n.Message, "web-1") {
		t.Errorf("a pod of another node is named: %q", n.Message)
	}
	if count := f.countEvents(EventNodeDelayed, ""); count != 0 {
		t.Errorf("%d events before a minute is over", count)
	}
	f.advance(3*time.Minute, 5*time.Second)
	if count := f.countEvents(EventNodeDelayed, "shop/web-0"); count != 1 {
		t.Errorf("%d events after some minutes, want 1", count)
	}
	lists := f.lists
	f.advance(time.Minute, time.Second)
	// Each time, budgets, and pods of two phases.
	if looks := f.lists - lists; looks < 9 || looks > 21 {
		t.Errorf("in a minute pods and budgets were listed %d times", looks)
	}
	writes := f.writes
	f.advance(time.Minute, time.Second)
	if f.writes != writes {
		t.Errorf("nothing happens, and %d writes were made", f.writes-writes)
	}
	f.must(f.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}))
	f.advance(15*time.Second, time.Second)
	if message := f.nodeStatus("n1").Message; !strings.Contains(message, "all pods have left") {
		t.Errorf("the pod has left: %q", message)
	}
	f.report("Working", "drain-rendered-2", "drain-rendered-2")
	f.advance(3*time.Second, time.Second)
	if message := f.nodeStatus("n1").Message; strings.Contains(message, "drain") {
		t.Errorf("the drain is over: %q", message)
	}
}

func TestReleasedNode_NotStarted(t *testing.T) {
	f := newReleased(t)
	f.advance(50*time.Second, 5*time.Second)
	if count := f.countEvents(EventNodeDelayed, ""); count != 0 {
		t.Errorf("%d events before a minute is over", count)
	}
	f.advance(2*time.Minute, 5*time.Second)
	if count := f.countEvents(EventNodeDelayed, "has not started to update"); count != 1 {
		t.Errorf("%d events after some minutes, want 1", count)
	}
}

func TestReleasedNode_DrainUnreadable(t *testing.T) {
	f := newReleased(t)
	f.failLists = errors.New("no answer")
	f.report("Working", "drain-rendered-2", "")
	f.advance(3*time.Second, time.Second)
	if message := f.nodeStatus("n1").Message; !strings.Contains(message, "its pods cannot be read: listing the PodDisruptionBudgets: no answer") {
		t.Errorf("the message is %q", message)
	}
}
