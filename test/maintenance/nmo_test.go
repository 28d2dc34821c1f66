package maintenance

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

// left creates what node-maintenance-operator leaves when it is switched off: a node in maintenance without a record, and its object.
func left(s *harness.Site, older bool, phase medik8s.Phase, progress int) *harness.Maintenance {
	s.Helper()
	node := s.AddNode(func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		key := "medik8s.io/drain"
		if older {
			key = "kubevirt.io/drain"
		} else {
			n.Labels[maintenance.ExcludeLabel] = "true"
		}
		n.Spec.Taints = []corev1.Taint{
			harness.Taint("node.kubernetes.io/unschedulable", "", corev1.TaintEffectNoSchedule), harness.Taint(key, "", corev1.TaintEffectNoSchedule),
		}
	})
	m := &harness.Maintenance{World: s.World, Name: node, Node: node, Kubevirt: older}
	status := medik8s.NodeMaintenanceStatus{Phase: phase, DrainProgress: progress, LastUpdate: new(metav1.Now()), TotalPods: 3, EvictionPods: 2,
		LastError: "what was wrong an hour ago"}
	meta := metav1.ObjectMeta{Name: node, Finalizers: []string{medik8s.Finalizer}}
	var object client.Object
	if older {
		own := &kubevirt.NodeMaintenance{ObjectMeta: meta, Spec: kubevirt.NodeMaintenanceSpec{NodeName: node}}
		m.Begin(own)
		own.Status = status
		object = own
	} else {
		own := &medik8s.NodeMaintenance{ObjectMeta: meta, Spec: medik8s.NodeMaintenanceSpec{NodeName: node}}
		m.Begin(own)
		own.Status = status
		object = own
	}
	if err := s.Client.Status().Update(s.Context(), object); err != nil {
		s.Fatal(err)
	}
	s.TakeLease(node, maintenance.Holder, time.Hour)
	return m
}

// bare waits until a node has nothing left of a maintenance.
func bare(s *harness.Site, node string) {
	s.Helper()
	s.AwaitNode(node, "giving back", func(n *corev1.Node) error {
		if _, labelled := n.Labels[maintenance.ExcludeLabel]; labelled || n.Spec.Unschedulable || len(n.Spec.Taints) > 0 ||
			n.Annotations[drain.AnnotationCordon] != "" {
			return fmt.Errorf("it is %s", looks(n))
		}
		return nil
	})
}

// TestMigration_FromNMO: its objects go on, and end as it would have ended them.
func TestMigration_FromNMO(t *testing.T) {
	s := alone(t)
	drained := left(s, false, medik8s.PhaseSucceeded, 100)
	older := left(s, true, medik8s.PhaseSucceeded, 0)
	draining := left(s, false, medik8s.PhaseRunning, 50)
	s.Pod("remaining", harness.Pods{Node: draining.Node, Tolerant: true})
	ending, olderEnding := left(s, false, medik8s.PhaseSucceeded, 100), left(s, true, medik8s.PhaseRunning, 0)
	ending.Delete()
	olderEnding.Delete()
	s.Operator(harness.Options{})
	for _, m := range []*harness.Maintenance{ending, olderEnding} {
		s.Gone(builder.NodeMaintenance(m.Name, m.Node))
		if m.Kubevirt {
			s.Gone(&kubevirt.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: m.Name}})
		}
		bare(s, m.Node)
		s.AwaitHolder(m.Node, "")
	}
	for _, m := range []*harness.Maintenance{drained, older, draining} {
		status := m.Condition(plan.ConditionReady, "InMaintenance", "")
		if status.Phase != medik8s.PhaseSucceeded || status.LastError != "" || status.DrainProgress != 100 {
			t.Errorf("the status of %s is %s", m.Name, harness.Render(status))
		}
		if s.Node(m.Node).Annotations[drain.AnnotationCordon] == "" {
			t.Errorf("node %s has no record", m.Node)
		}
		m.NoEvent("NodeMaintenance", m.Name, maintenance.EventBegin)
	}
	drained.NoEvent("NodeMaintenance", drained.Name, maintenance.EventSucceeded)
	if len(s.Pods("remaining")) > 0 {
		t.Error("the pod that was left is there")
	}
	for _, m := range []*harness.Maintenance{drained, older, draining} {
		m.End()
		bare(s, m.Node)
	}
}

// TestMaintenance_CreatedWhileOperatorIsDown: without an operator there is no webhook either, and what it would refuse comes through.
func TestMaintenance_CreatedWhileOperatorIsDown(t *testing.T) {
	s := alone(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	missing := s.Maintain(s.Name+"-nowhere", nil)
	// As kubectl get -o name prints it.
	invalid := s.MaintainAs(node+"-invalid", "node/"+node)
	first := s.MaintainAs(node+"-first", node)
	second := s.MaintainAs(node+"-second", node)
	third := s.MaintainKubevirt(node)
	s.Operator(harness.Options{})
	missing.Phase(medik8s.PhaseFailed)
	invalid.Phase(medik8s.PhaseFailed)
	// Creation times have no fractions: which of them counts as the oldest is not ours to say, but it is one.
	all := []*harness.Maintenance{first, second, third}
	won := map[*harness.Maintenance]bool{}
	for range all {
		winner := oneWins(s, all, won)
		won[winner] = true
		winner.End()
	}
	givenBack(s, node, before)
	missing.End()
	invalid.End()
}

// oneWins waits until one of the maintenances that have not ended has succeeded and the others have failed.
func oneWins(s *harness.Site, all []*harness.Maintenance, ended map[*harness.Maintenance]bool) *harness.Maintenance {
	s.Helper()
	var winner *harness.Maintenance
	s.Eventually("one of them has the node", func() error {
		winner = nil
		for _, m := range all {
			if ended[m] {
				continue
			}
			switch status := m.Status(); {
			case status.Phase == medik8s.PhaseSucceeded && winner == nil:
				winner = m
			case status.Phase != medik8s.PhaseFailed:
				return fmt.Errorf("%s is %s", m.Name, harness.Render(status))
			}
		}
		if winner == nil {
			return fmt.Errorf("all have failed")
		}
		return nil
	})
	return winner
}
