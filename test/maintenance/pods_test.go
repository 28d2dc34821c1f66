package maintenance

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestPods_SelectedForEviction is the selection of node-maintenance-operator.
func TestPods_SelectedForEviction(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	staying := uids(append(s.DaemonSet("daemon", 1, harness.Pods{}), s.StaticPod("static", node)))
	s.Deployment("deployment", harness.Pods{})
	s.StatefulSet("stateful", harness.Pods{})
	s.Job("job", harness.Pods{})
	s.Pod("bare", harness.Pods{Node: node})
	s.BarePod("finished", harness.Pods{Node: node, Completes: "10ms"})
	s.Eventually("a pod has finished", func() error {
		if phase := s.GetPod("finished").Status.Phase; phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	m := s.Maintain(node, nil)
	// Nowhere to go yet: the pods leave, and their successors wait.
	status := m.Phase(medik8s.PhaseSucceeded)
	if status.TotalPods != 7 || status.EvictionPods != 5 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	m.Condition(plan.ConditionDrained, "Drained", "left alone: 1 DaemonSet, 1 static")
	other := s.AddNode()
	for _, app := range []string{"deployment", "stateful", "job"} {
		s.Settled(app, 1, node)
	}
	s.Running("daemon", 2, true)
	var left corev1.PodList
	if err := s.Client.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	for i := range left.Items {
		pod := &left.Items[i]
		if pod.Spec.NodeName == node && staying[pod.Name] != pod.UID {
			t.Errorf("pod %s is on the node", pod.Name)
		}
		if pod.Spec.NodeName == node {
			delete(staying, pod.Name)
		}
	}
	if len(staying) > 0 {
		t.Errorf("%v should have stayed on %s; the other node is %s", staying, node, other)
	}
}

// TestPods_StatefulSetReplacementNotEvicted: it has the name of the pod that was.
func TestPods_StatefulSetReplacementNotEvicted(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	old := uids(s.StatefulSet("db", harness.Pods{Replicas: 5, Ends: "100ms"}))
	s.Budget("db", "db", harness.MaxUnavailable(2))
	s.Allows("db", 2)
	s.AddNode()
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	s.Settled("db", 5, node)
	fresh := uids(s.Pods("db"))
	drainedMeanwhile(s)
	for name, uid := range uids(s.Pods("db")) {
		if fresh[name] != uid {
			t.Errorf("the replacement of %s was replaced", name)
		}
	}
	asked := requests(s)
	for i := range asked.Evictions {
		if e := &asked.Evictions[i]; strings.HasPrefix(e.Name, "db-") && e.UID != string(old[e.Name]) {
			t.Errorf("the eviction of %s is of %s, want %s", e.Name, e.UID, old[e.Name])
		}
	}
	t.Logf("5 pods left with %d requests, by code %v", len(asked.Evictions), harness.Codes(asked.Evictions))
}

func TestPods_FinalizerReported(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Pod("held", harness.Pods{Node: node, Grace: 1, Finalizers: []string{"example.com/backup"}})
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Blocked", "kept by a finalizer")
	m.Condition(plan.ConditionDrained, "Blocked", "(example.com/backup): "+s.Name+"/held")
	held := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "held"}}
	if err := patch(s, held, `{"metadata":{"finalizers":null}}`); err != nil {
		t.Fatal(err)
	}
	m.Phase(medik8s.PhaseSucceeded)
}

func TestPods_LongTerminationReported(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Pod("slow", harness.Pods{Node: node, Grace: 600, Ends: "8s"})
	s.Pod("stuck", harness.Pods{Node: node, Grace: 4, Ends: harness.Never})
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Draining", "2 terminating since ")
	m.Condition(plan.ConditionDrained, "Blocked", "1 past their grace period and not ended by the kubelet")
	status := m.Await("only the stuck one is left", func(status medik8s.NodeMaintenanceStatus) error {
		if fmt.Sprint(status.PendingPods) != "[stuck]" || status.DrainProgress != 50 {
			return fmt.Errorf("it is not so")
		}
		return nil
	})
	if status.Phase != medik8s.PhaseRunning {
		t.Errorf("the status is %s", harness.Render(status))
	}
	asked := requests(s)
	if len(asked.Evictions) != 2 {
		t.Errorf("two pods were evicted %d times, by code %v", len(asked.Evictions), harness.Codes(asked.Evictions))
	}
	if err := s.Client.Delete(t.Context(), s.GetPod("stuck"), force); err != nil {
		t.Fatal(err)
	}
	m.Phase(medik8s.PhaseSucceeded)
}
