package maintenance

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// rolling makes a deployment with a budget on a node, and another node for it, so that its drain takes some seconds.
func rolling(s *harness.Site, replicas int32) (node string) {
	s.Helper()
	node = s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: replicas, Ready: "600ms", Ends: "300ms"})
	s.Running("app", int(replicas), true)
	// An eviction whose caller dies in the middle of it takes a place in the budget, and for two minutes kube-controller-manager waits for
	// the pod to end: there are more places than evictions under way at once, once the first ones are through.
	s.Budget("app", "app", harness.MaxUnavailable(4))
	s.Allows("app", 4)
	s.AddNode()
	return node
}

// halfway waits until some pods have left and some have not.
func halfway(m *harness.Maintenance) {
	m.Helper()
	m.Await("the middle of the drain", func(status medik8s.NodeMaintenanceStatus) error {
		if status.Phase == medik8s.PhaseSucceeded {
			m.Fatal("the drain was over too soon")
		}
		if status.DrainProgress < 30 {
			return fmt.Errorf("it is not there yet")
		}
		return nil
	})
}

// once fails the test when the API server accepted two evictions of a pod: one is enough.
func once(s *harness.Site) {
	s.Helper()
	seen := map[string]int{}
	asked := requests(s)
	for i := range asked.Evictions {
		if e := &asked.Evictions[i]; e.Code == 201 {
			if seen[e.UID]++; seen[e.UID] == 2 {
				s.Errorf("pod %s was evicted twice", e.Name)
			}
		}
	}
	s.Logf("eviction calls by code: %v", harness.Codes(asked.Evictions))
}

func TestOperators_LeaderDies(t *testing.T) {
	s := alone(t)
	node := rolling(s, 16)
	before := looks(s.Node(node))
	elect := harness.Options{Elect: true, Args: []string{
		"--leader-elect-lease-duration=12s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=500ms",
	}}
	leader := s.Operator(elect)
	s.Eventually("the first one leads", func() error {
		if lease := s.GetLease(harness.SystemNamespace, "drover"); lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return fmt.Errorf("no operator is the leader")
		}
		return nil
	})
	s.Operator(elect)
	m := s.Maintain(node, nil)
	halfway(m)
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	m.Phase(medik8s.PhaseSucceeded)
	t.Logf("drained %s after the leader died", time.Since(killed).Round(time.Millisecond))
	s.Settled("app", 16, node)
	once(s)
	if n := s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventBegin, ""); n != 1 {
		t.Errorf("there are %d events of the beginning", n)
	}
	m.End()
	givenBack(s, node, before)
}

// outage is when there was no API server. A starting API server refuses everybody for a moment.
var outage struct{ begun, over time.Time }

func TestOperators_APIServerDiesDuringDrain(t *testing.T) {
	s := alone(t)
	node := rolling(s, 16)
	before := looks(s.Node(node))
	s.Operator(harness.Options{})
	m := s.Maintain(node, nil)
	halfway(m)
	outage.begun = time.Now()
	if err := env.Kill(cluster.APIServer, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := env.StartComponent(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	outage.over = time.Now()
	checker.Blind(outage.begun, outage.over)
	status := m.Phase(medik8s.PhaseSucceeded)
	took := time.Since(outage.over)
	t.Logf("drained %s after the API server was back", took.Round(time.Millisecond))
	if took > 2*time.Minute {
		t.Error("that is more than two minutes: what a server says that does not know its roles yet counts for too long")
	}
	if status.LastError != "" || status.DrainProgress != 100 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	s.Settled("app", 16, node)
	// An answer that was lost with the server is asked for again, so a pod may be evicted twice; never another one of its name.
	checker.Verify(s)
	m.End()
	givenBack(s, node, before)
}

func TestOperators_ManualUncordonReported(t *testing.T) {
	s := alone(t)
	node := s.AddNode()
	s.Pod("blocked", harness.Pods{Node: node})
	s.Budget("blocked", "blocked", harness.MinAvailable(1))
	s.Operator(harness.Options{Args: []string{"--maintenance-out-of-band-uncordon=Report"}})
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Blocked", "")
	s.ChangeNode(node, func(n *corev1.Node) { n.Spec.Unschedulable = false })
	status := m.Condition(plan.ConditionCordoned, "UncordonedByOther", "cordoned")
	if status.Phase != medik8s.PhaseRunning || status.LastError == "" {
		t.Errorf("the status is %s", harness.Render(status))
	}
	// The pod may go now, and must not: the node takes new ones.
	s.ChangeBudget("blocked", harness.MinAvailable(0))
	s.Allows("blocked", 1)
	drainedMeanwhile(s)
	if n := s.Node(node); n.Spec.Unschedulable {
		t.Error("the node was cordoned again")
	}
	if s.GetPod("blocked").DeletionTimestamp != nil {
		t.Error("the pod was evicted")
	}
	s.ChangeNode(node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	status = m.Phase(medik8s.PhaseSucceeded)
	if status.LastError != "" || !meta.IsStatusConditionTrue(status.Conditions, plan.ConditionReady) {
		t.Errorf("the status is %s", harness.Render(status))
	}
	m.End()
	if n := s.Node(node); n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
		t.Errorf("finally the node is %s", looks(n))
	}
}

// TestOperators_LeaseLostForTooLong gives the node back to those who have its lease.
func TestOperators_LeaseLostForTooLong(t *testing.T) {
	s := alone(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	s.Pod("blocked", harness.Pods{Node: node})
	s.Budget("blocked", "blocked", harness.MinAvailable(1))
	s.Operator(harness.Options{Args: []string{"--maintenance-lease-loss-timeout=3s"}})
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Blocked", "")
	lost := time.Now()
	s.TakeLease(node, remediator, time.Hour)
	status := m.Phase(medik8s.PhaseFailed)
	t.Logf("given up %s after the loss; the timeout was 3s", time.Since(lost).Round(time.Millisecond))
	if !strings.Contains(status.LastError, "maintenance failed: lease could not be extended") {
		t.Errorf("the status is %s", harness.Render(status))
	}
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventFailed, "")
	givenBack(s, node, before)
	if holder := s.Holder(node); holder != remediator {
		t.Errorf("the lease is held by %q", holder)
	}
	// node-maintenance-operator uncordons again and again what the new holder cordons.
	s.ChangeNode(node, func(n *corev1.Node) { n.Spec.Unschedulable = true })
	drainedMeanwhile(s)
	if !s.Node(node).Spec.Unschedulable {
		t.Error("the node was uncordoned under its new holder")
	}
}
