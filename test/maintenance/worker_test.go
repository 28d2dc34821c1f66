package maintenance

import (
	"slices"
	"strings"
	"testing"
	"time"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestWorker_IntoMaintenanceAndBack is what the e2e suite of node-maintenance-operator expects of a worker node.
func TestWorker_IntoMaintenanceAndBack(t *testing.T) {
	s := site(t)
	worker := s.AddNode()
	before := looks(s.Node(worker))
	s.Deployment("app", harness.Pods{Labels: map[string]string{"test": "drain"}, Grace: 80, Ends: "2s"})
	other := s.AddNode()

	started := time.Now().Add(-time.Second)
	m := s.Maintain(worker, nil)
	if n := s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventBegin, "Begin a node maintenance"); n != 1 {
		t.Errorf("%d events of the beginning", n)
	}
	t.Run("a second one for the node fails", func(t *testing.T) {
		second := s.MaintainAs(worker+"-again", worker)
		status := second.Phase(medik8s.PhaseFailed)
		if want := "a NodeMaintenance for node " + worker + " already exists"; !strings.Contains(status.LastError, want) {
			t.Errorf("its lastError is %q, want %q in it", status.LastError, want)
		}
		second.End()
	})
	t.Run("it cannot be given another node", func(t *testing.T) {
		err := patch(s, m.Get(), `{"spec":{"nodeName":"`+other+`"}}`)
		if err == nil || !strings.Contains(err.Error(), "updating spec.NodeName isn't allowed") {
			t.Errorf("the answer is %v", err)
		}
		if err := patch(s, m.Get(), `{"spec":{"reason":"another"}}`); err != nil {
			t.Errorf("the reason may change: %v", err)
		}
	})
	status := m.Phase(medik8s.PhaseSucceeded)
	if n := s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventSucceeded, "Node maintenance was succeeded"); n != 1 {
		t.Errorf("%d events of the success", n)
	}
	if status.DrainProgress != 100 || status.LastError != "" || len(status.PendingPods)+len(status.PendingPodsRefs) != 0 ||
		status.EvictionPods != 1 || status.TotalPods != 1 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	if !strings.Contains(shared.For(t, env).LogAbout(worker), "Reconciling with fixed duration") {
		t.Error("the log line that the tests of node-maintenance-operator look for was not printed")
	}
	node := s.Node(worker)
	if err := inMaintenance(node); err != nil {
		t.Error(err)
	}
	if taints := harness.Taints(node); len(taints) != 2 || !slices.Contains(taints, medik8sTaint) {
		t.Errorf("the taints are %v", taints)
	}
	checkLease(s, worker, started)
	s.Settled("app", 1, worker)

	ended := time.Now()
	m.End()
	givenBack(s, worker, before)
	t.Logf("given back after %s", time.Since(ended).Round(time.Millisecond))
	if time.Since(ended) > time.Minute {
		t.Error("that is more than a minute")
	}
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventRemoved, "Removed a node maintenance")
	s.AwaitEvent("Node", worker, maintenance.EventUncordon, "Uncordon a node")
	s.AwaitHolder(worker, "")
	if lease := s.LeaseOf(worker); lease != nil {
		t.Errorf("the lease is still there: %v", lease.Spec)
	}
	s.Settled("app", 1, worker)
}

// checkLease checks that a node's lease looks like a lease of node-maintenance-operator.
func checkLease(s *harness.Site, node string, since time.Time) {
	s.Helper()
	lease := s.LeaseOf(node)
	if lease == nil {
		s.Fatalf("node %s has no lease", node)
	}
	spec := lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity != "node-maintenance" || spec.LeaseDurationSeconds == nil ||
		*spec.LeaseDurationSeconds != 3600 || spec.LeaseTransitions == nil || *spec.LeaseTransitions != 0 {
		s.Errorf("the lease is %v", spec)
	}
	for what, at := range map[string]time.Time{"acquired": spec.AcquireTime.Time, "renewed": spec.RenewTime.Time} {
		if at.Before(since) || at.After(time.Now()) {
			s.Errorf("the lease was %s at %s, not since %s", what, at, since)
		}
	}
	if owners := lease.OwnerReferences; len(owners) != 1 || owners[0].UID != s.Node(node).UID || owners[0].Kind != "Node" {
		s.Errorf("the lease belongs to %v, want the node", owners)
	}
}

func TestMaintenance_NodeDoesNotExist(t *testing.T) {
	s := site(t)
	m := s.Maintain(s.Name+"-nowhere", nil)
	status := m.Phase(medik8s.PhaseFailed)
	if want := `nodes "` + m.Node + `" not found`; status.LastError != want {
		t.Errorf("lastError is %q, want %q", status.LastError, want)
	}
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventBegin, "")
	s.AwaitEvent("NodeMaintenance", m.Name, maintenance.EventFailed, "Failed a node maintenance: "+status.LastError)
	get := []string{"get", "nodemaintenances.nodemaintenance.medik8s.io", m.Name, "-o", "wide", "--no-headers"}
	output, err := harness.Kubectl(t.Context(), s.Cluster, nil, get...)
	if err != nil || !strings.Contains(output, "NodeNotFound   "+status.LastError) {
		t.Errorf("kubectl get says %q: %v", output, err)
	}
	m.Condition(plan.ConditionReady, "NodeNotFound", m.Node)
	m.End()
}
