package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

func TestBudget_BlocksUntilAllowed(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 6, Node: "", Ready: "300ms", Ends: "200ms"})
	s.Running("app", 6, true)
	s.Budget("app", "app", harness.MinAvailable(5))
	s.Allows("app", 1)
	s.AddNode()
	begun := time.Now()
	m := s.Maintain(node, nil)
	history := m.Follow()
	status := m.Phase(medik8s.PhaseSucceeded)
	took := time.Since(begun)
	if status.EvictionPods != 6 || status.DrainProgress != 100 || status.LastError != "" {
		t.Errorf("finally the status is %s", harness.Render(status))
	}
	last := 0
	for _, seen := range history.All() {
		if seen.DrainProgress < last || seen.DrainProgress > 100 || seen.LastError != "" {
			t.Errorf("after progress %d came the status %s", last, harness.Render(seen))
		}
		last = seen.DrainProgress
	}
	asked := requests(s)
	t.Logf("6 pods left one by one in %s with %d requests, by code %v", took.Round(time.Millisecond), len(asked.Evictions),
		harness.Codes(asked.Evictions))
	if refused := harness.Codes(asked.Evictions)[429]; refused > 6 {
		t.Errorf("the budget refused %d times: it is to be waited for, not asked", refused)
	}
	s.Settled("app", 6, node)
}

func TestBudget_TwoOnOnePod(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 2})
	s.Budget("first", "app", harness.MaxUnavailable(1))
	s.Budget("second", "app", harness.MaxUnavailable(1))
	s.AddNode()
	m := s.Maintain(node, nil)
	status := m.Condition(plan.ConditionDrained, "Blocked", s.Name+"/first and "+s.Name+"/second")
	if status.Phase != medik8s.PhaseRunning || len(status.PendingPods) != 2 || status.DrainProgress != 0 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	for _, ref := range status.PendingPodsRefs {
		if ref.Namespace != s.Name || !slices.Contains(status.PendingPods, ref.Name) {
			t.Errorf("a pending pod is %v", ref)
		}
	}
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventBlocked, "second")
	drop(s, "second")
	m.Phase(medik8s.PhaseSucceeded)
	s.Settled("app", 2, node)
}

func drop(s *harness.Site, budget string) {
	s.Helper()
	if err := s.Client.Delete(s.Context(), s.GetBudget(budget)); err != nil {
		s.Fatal(err)
	}
}

func TestBudget_NeverAllows(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 2})
	s.Budget("exhausted", "app", harness.MaxUnavailable(0))
	s.AddNode()
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Blocked", "cannot allow any as it is")
	status := m.Condition(plan.ConditionReady, "Blocked", s.Name+"/exhausted needs 2 healthy pods and has 2")
	if status.LastError != "" && !strings.Contains(status.LastError, "exhausted") {
		t.Errorf("lastError is %q", status.LastError)
	}
	if n := s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventBlocked, "exhausted"); n != 1 {
		t.Errorf("there are %d events", n)
	}
	relaxed := time.Now()
	s.ChangeBudget("exhausted", harness.MaxUnavailable(1))
	status = m.Phase(medik8s.PhaseSucceeded)
	t.Logf("drained %s after the budget was relaxed", time.Since(relaxed).Round(time.Millisecond))
	if status.LastError != "" || len(status.PendingPods) != 0 {
		t.Errorf("after the success the status is %s", harness.Render(status))
	}
}

// TestBudget_UnhealthyPodEvictionPolicy: a budget without the policy AlwaysAllow lets them go while enough others are healthy.
func TestBudget_UnhealthyPodEvictionPolicy(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	always := policyv1.AlwaysAllow
	s.Deployment("always", harness.Pods{Ready: harness.Never})
	s.Budget("always", "always", func(spec *policyv1.PodDisruptionBudgetSpec) {
		harness.MinAvailable(1)(spec)
		spec.UnhealthyPodEvictionPolicy = &always
	})
	s.Deployment("healthy", harness.Pods{Ready: harness.Never})
	s.Budget("healthy", "healthy", harness.MinAvailable(1))
	s.AddNode()
	m := s.Maintain(node, nil)
	status := m.Condition(plan.ConditionDrained, "Blocked", s.Name+"/healthy needs 1 healthy pods and has 0")
	m.Await("the other pod has left", func(now medik8s.NodeMaintenanceStatus) error {
		if len(now.PendingPods) != 1 || !strings.HasPrefix(now.PendingPods[0], "healthy-") {
			return fmt.Errorf("pending are %v", now.PendingPods)
		}
		return nil
	})
	if status.Phase != medik8s.PhaseRunning {
		t.Errorf("the status is %s", harness.Render(status))
	}
	s.ChangeBudget("healthy", func(spec *policyv1.PodDisruptionBudgetSpec) { spec.UnhealthyPodEvictionPolicy = &always })
	m.Phase(medik8s.PhaseSucceeded)
}

// TestDrain_PodsThatArriveLate binds pods to the node behind the cordon's back, during the drain and after it.
func TestDrain_PodsThatArriveLate(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Pod("blocked", harness.Pods{Node: node})
	s.Budget("blocked", "blocked", harness.MinAvailable(1))
	for i := range 3 {
		s.Pod(fmt.Sprintf("early%d", i), harness.Pods{Node: node})
	}
	m := s.Maintain(node, nil)
	history := m.Follow()
	m.Await("three of four pods have left", func(status medik8s.NodeMaintenanceStatus) error {
		if len(status.PendingPods) != 1 || status.DrainProgress != 75 {
			return fmt.Errorf("it is not so")
		}
		return nil
	})
	for i := range 5 {
		s.BarePod(fmt.Sprintf("late%d", i), harness.Pods{Node: node, Finalizers: []string{"example.com/hold"}})
	}
	m.Await("the late pods count", func(status medik8s.NodeMaintenanceStatus) error {
		if status.EvictionPods < 6 || len(status.PendingPods) != 6 {
			return fmt.Errorf("it is not so")
		}
		return nil
	})
	for i := range 5 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: fmt.Sprintf("late%d", i)}}
		s.Eventually("pod "+pod.Name+" is being evicted", func() error {
			if s.GetPod(pod.Name).DeletionTimestamp == nil {
				return fmt.Errorf("it is not")
			}
			return nil
		})
		if err := patch(s, pod, `{"metadata":{"finalizers":null}}`); err != nil {
			t.Fatal(err)
		}
	}
	drop(s, "blocked")
	m.Phase(medik8s.PhaseSucceeded)
	s.BarePod("afterwards", harness.Pods{Node: node})
	s.Gone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "afterwards"}})
	status := m.Condition(plan.ConditionDrained, "Drained", "")
	if status.Phase != medik8s.PhaseSucceeded || status.LastError != "" || status.DrainProgress != 100 {
		t.Errorf("finally the status is %s", harness.Render(status))
	}
	if n := s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventSucceeded, ""); n != 1 {
		t.Errorf("there are %d events of the success", n)
	}
	for _, seen := range history.All() {
		if seen.DrainProgress < 0 || seen.DrainProgress > 100 {
			t.Errorf("the progress was %d", seen.DrainProgress)
		}
	}
}

// TestDrain_MaintenanceDeletedDuringDrain relaxes the budget only when the node is given back.
func TestDrain_MaintenanceDeletedDuringDrain(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	pods := uids(s.Deployment("app", harness.Pods{Replicas: 3, Node: node}))
	s.Budget("app", "app", harness.MinAvailable(3))
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Blocked", "")
	m.End()
	givenBack(s, node, before)
	s.ChangeBudget("app", harness.MinAvailable(1))
	s.Allows("app", 2)
	drainedMeanwhile(s)
	if after := uids(s.Pods("app")); fmt.Sprint(after) != fmt.Sprint(pods) {
		t.Errorf("the pods are %v, and were %v", after, pods)
	}
}

// TestBudget_KindWithoutScale: a Job does not say how many pods it should have, so a budget that needs that number never allows a disruption.
func TestBudget_KindWithoutScale(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Job("batch", harness.Pods{Node: node, Completes: harness.Never})
	s.CreateWithCleanup(builder.PodDisruptionBudget(s.Name, "batch", map[string]string{harness.AppLabel: "batch"}, harness.MaxUnavailable(1)))
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, plan.ReasonBlocked, "1 blocked until the budget changes")
	m.Condition(plan.ConditionDrained, plan.ReasonBlocked, "does not implement the scale subresource; it cannot allow any as it is")
}
