package maintenance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

// remediator is who else takes leases of nodes.
const remediator = "NodeHealthCheck-test"

func TestLease_OfAnotherHolder(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	s.Pod("app", harness.Pods{Node: node})
	s.TakeLease(node, remediator, time.Hour)
	m := s.Maintain(node, nil)
	status := m.Condition(plan.ConditionLeaseHeld, "HeldByOther", remediator)
	if status.Phase != medik8s.PhaseRunning || status.ErrorOnLeaseCount != 0 || status.DrainProgress != 0 || status.TotalPods != 1 ||
		status.EvictionPods != 1 || !strings.Contains(status.LastError, "failed to obtain a lease that is not owned by us") {
		t.Errorf("the status is %s", harness.Render(status))
	}
	drainedMeanwhile(s)
	if now := looks(s.Node(node)); now != before {
		t.Errorf("the node is %s", now)
	}
	freed := time.Now()
	s.DropLease(node)
	status = m.Phase(medik8s.PhaseSucceeded)
	t.Logf("drained %s after the lease was free", time.Since(freed).Round(time.Millisecond))
	if status.LastError != "" || status.ErrorOnLeaseCount != 0 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	s.NoEvent("NodeMaintenance", m.Name, maintenance.EventFailed)
	s.AwaitHolder(node, maintenance.Holder)
}

func TestLease_Expired(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.TakeLease(node, remediator, time.Second)
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	if lease := s.LeaseOf(node); lease == nil || *lease.Spec.HolderIdentity != maintenance.Holder || *lease.Spec.LeaseTransitions != 1 ||
		*lease.Spec.LeaseDurationSeconds != 3600 {
		t.Errorf("the lease is %v", lease)
	}
}

// TestLease_LostDuringDrain stops the evictions and keeps the cordon, until the lease can be had again.
func TestLease_LostDuringDrain(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	pods := uids(s.Deployment("app", harness.Pods{Replicas: 2}))
	s.Budget("app", "app", harness.MinAvailable(2))
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionDrained, "Blocked", "")
	s.TakeLease(node, remediator, time.Hour)
	status := m.Condition(plan.ConditionLeaseHeld, "Lost", remediator)
	if status.Phase != medik8s.PhaseRunning || !strings.Contains(status.LastError, "failed to extend a lease that used to be owned by us") {
		t.Errorf("the status is %s", harness.Render(status))
	}
	// The pods could go now.
	s.ChangeBudget("app", harness.MinAvailable(0))
	s.Allows("app", 2)
	drainedMeanwhile(s)
	if after := uids(s.Pods("app")); fmt.Sprint(after) != fmt.Sprint(pods) {
		t.Errorf("the pods are %v and were %v", after, pods)
	}
	if err := inMaintenance(s.Node(node)); err != nil {
		t.Errorf("while another holder has the lease: %v", err)
	}
	s.DropLease(node)
	status = m.Phase(medik8s.PhaseSucceeded)
	if status.LastError != "" || status.ErrorOnLeaseCount != 0 {
		t.Errorf("the status is %s", harness.Render(status))
	}
	s.NoEvent("NodeMaintenance", m.Name, maintenance.EventFailed)
	s.Settled("app", 2, node)
}

// TestLease_LostAfterSuccess changes nothing: a user works on the node.
func TestLease_LostAfterSuccess(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	held := looks(s.Node(node))
	s.TakeLease(node, remediator, time.Hour)
	status := m.Condition(plan.ConditionLeaseHeld, "Lost", remediator)
	if status.Phase != medik8s.PhaseSucceeded {
		t.Errorf("the status is %s", harness.Render(status))
	}
	if now := looks(s.Node(node)); now != held {
		t.Errorf("the node was %s and is %s", held, now)
	}
	t.Run("and is taken back when it is free", func(t *testing.T) {
		s.DropLease(node)
		s.AwaitHolder(node, maintenance.Holder)
		status := m.Condition(plan.ConditionReady, "InMaintenance", "")
		if status.Phase != medik8s.PhaseSucceeded || status.LastError != "" || status.ErrorOnLeaseCount != 0 {
			t.Errorf("the status is %s", harness.Render(status))
		}
	})
	t.Run("the new holder keeps it", func(t *testing.T) {
		s.TakeLease(node, remediator, time.Hour)
		m.Condition(plan.ConditionLeaseHeld, "Lost", remediator)
		m.End()
		givenBack(s, node, before)
		if holder := s.Holder(node); holder != remediator {
			t.Errorf("the lease is held by %q", holder)
		}
		s.DropLease(node)
	})
	s.NoEvent("NodeMaintenance", m.Name, maintenance.EventFailed)
}

// TestRelease_DeletedTogether deletes two NodeMaintenances of each of several nodes at once, of one group and of both.
func TestRelease_DeletedTogether(t *testing.T) {
	s := site(t)
	type pair struct {
		node          string
		before        string
		first, second *harness.Maintenance
	}
	var pairs []pair
	for i := range 6 {
		node := s.AddNode()
		p := pair{node: node, before: looks(s.Node(node)), first: s.Maintain(node, nil)}
		p.first.Phase(medik8s.PhaseSucceeded)
		if i%2 == 0 {
			p.second = s.MaintainKubevirt(node)
		} else {
			p.second = s.MaintainAs(node+"-again", node)
		}
		p.second.Phase(medik8s.PhaseFailed)
		pairs = append(pairs, p)
	}
	for _, p := range pairs {
		for _, m := range []*harness.Maintenance{p.first, p.second} {
			if err := s.Client.Delete(t.Context(), m.Get()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range pairs {
		givenBack(s, p.node, p.before)
		s.AwaitHolder(p.node, "")
		if lease := s.LeaseOf(p.node); lease != nil {
			t.Errorf("the lease of node %s is left: %v", p.node, lease.Spec)
		}
	}
}
