package maintenance

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestKubevirt_OlderGroup has another taint, no label, and a second lease that is emptied and never deleted.
func TestKubevirt_OlderGroup(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	s.Deployment("app", harness.Pods{Replicas: 2})
	s.AddNode()
	m := s.MaintainKubevirt(node)
	m.Phase(medik8s.PhaseSucceeded)
	held := s.Node(node)
	if err := harness.Has(held, nil, nil, kubevirtTaint, cordonTaint); err != nil || !held.Spec.Unschedulable || len(held.Spec.Taints) != 2 {
		t.Errorf("the node is %s: %v", looks(held), err)
	}
	if _, labelled := held.Labels[maintenance.ExcludeLabel]; labelled {
		t.Error("the node has the label of the newer group")
	}
	for _, place := range [][2]string{{harness.LeaseNamespace, "node-" + node}, {harness.SystemNamespace, node}} {
		lease := s.GetLease(place[0], place[1])
		if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != maintenance.Holder ||
			*lease.Spec.LeaseDurationSeconds != int32(time.Hour/time.Second) {
			t.Errorf("the lease %v is %v", place, lease)
		}
	}
	s.Settled("app", 2, node)
	err := patch(s, m.Get(), `{"spec":{"nodeName":"another"}}`)
	if err == nil || !strings.Contains(err.Error(), "updating spec.NodeName isn't allowed") {
		t.Errorf("another node was answered with %v", err)
	}
	m.End()
	givenBack(s, node, before)
	if lease := s.LeaseOf(node); lease != nil {
		t.Errorf("the lease is still there: %v", lease.Spec)
	}
	own := s.GetLease(harness.SystemNamespace, node)
	if own == nil {
		t.Fatal("the second lease was deleted")
	}
	if own.Spec != (coordinationv1.LeaseSpec{}) {
		t.Errorf("the second lease was not emptied: %v", own.Spec)
	}
	t.Run("and again, with the lease that is there and has no owner", func(t *testing.T) {
		own.OwnerReferences = nil
		if err := s.Client.Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		m := s.MaintainKubevirt(node)
		m.Phase(medik8s.PhaseSucceeded)
		if own := s.GetLease(harness.SystemNamespace, node); own.Spec.HolderIdentity == nil {
			t.Errorf("the second lease is %v", own.Spec)
		}
		m.End()
		givenBack(s, node, before)
	})
}

// TestKubevirt_OneMaintenancePerNode, also across the groups: the oldest one, and when that goes the next.
func TestKubevirt_OneMaintenancePerNode(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	first := s.MaintainKubevirt(node)
	first.Phase(medik8s.PhaseSucceeded)
	second := s.Maintain(node, nil)
	status := second.Phase(medik8s.PhaseFailed)
	if !strings.Contains(status.LastError, "a NodeMaintenance for node "+node+" already exists") {
		t.Errorf("lastError is %q", status.LastError)
	}
	second.Condition(plan.ConditionReady, "AnotherNodeMaintenance", node)
	if err := harness.Has(s.Node(node), nil, nil, medik8sTaint); err == nil {
		t.Error("the second one has marked the node")
	}
	first.End()
	status = second.Phase(medik8s.PhaseSucceeded)
	if status.LastError != "" {
		t.Errorf("lastError is %q", status.LastError)
	}
	s.AwaitNode(node, "the second maintenance", func(n *corev1.Node) error {
		if err := inMaintenance(n); err != nil {
			return err
		}
		if err := harness.Has(n, nil, nil, kubevirtTaint); err == nil {
			t.Error("the first one's taint is there")
		}
		return nil
	})
	if hold, err := drain.ReadCordonRecord(s.Node(node)); err != nil || !strings.HasSuffix(hold.By, string(second.Get().GetUID())) {
		t.Errorf("the record is %v, %v", hold, err)
	}
	second.End()
	givenBack(s, node, before)
	s.AwaitHolder(node, "")
}
