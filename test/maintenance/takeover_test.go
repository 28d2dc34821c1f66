package maintenance

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestTakeOver_MachineGone has a maintenance wait for the Machine that has cordoned the node, and take the node over when that is gone. What its
// kubelet has added to the record stays on the node.
func TestTakeOver_MachineGone(t *testing.T) {
	s := site(t)
	s.Pool(cluster.PoolOptions{Name: s.Name, Machines: 1})
	node := s.Name + "-0"
	machine := s.Machine(node)
	dedicated := harness.Taint("example.com/dedicated", "", corev1.TaintEffectNoSchedule)
	s.ChangeNode(node, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, dedicated)
		n.Labels["node-restriction.kubernetes.io/tenant"] = ""
		n.Annotations[drain.AnnotationCordon] = fmt.Sprintf(`{"by":"Machine/%s","object":"%s/%s","since":"2026-01-01T00:00:00Z","cordoned":true,`+
			`"taints":["example.com/dedicated:NoSchedule","node.kubernetes.io/unschedulable:NoSchedule"],`+
			`"labels":{"node-restriction.kubernetes.io/tenant":null}}`, machine.UID, machine.Namespace, machine.Name)
	})
	m := s.Maintain(node, nil)
	m.Condition(plan.ConditionCordoned, "HeldForOtherWork", "Machine "+machine.Namespace+"/"+machine.Name)
	s.AwaitHolder(node, "")
	s.Merge(machine, `{"metadata":{"finalizers":null}}`)
	if err := s.Client.Delete(s.Context(), machine); err != nil {
		t.Fatal(err)
	}
	s.Gone(&machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name}})
	// The end of a Machine is no event for a maintenance.
	s.ChangeNode(node, func(n *corev1.Node) { n.Labels["example.com/changed"] = "true" })
	m.Phase(medik8s.PhaseSucceeded)
	m.End()
	after := s.Node(node)
	_, labelled := after.Labels["node-restriction.kubernetes.io/tenant"]
	if err := harness.Has(after, nil, nil, "example.com/dedicated=:NoSchedule"); err != nil || !labelled || after.Spec.Unschedulable {
		t.Errorf("the node is %s: %v", looks(after), err)
	}
}

// TestTakeOver_OtherGroupNotServed serves one API group after the other. The second group does not touch a maintenance that the first group has
// begun.
func TestTakeOver_OtherGroupNotServed(t *testing.T) {
	s := alone(t)
	node := s.AddNode()
	before := looks(s.Node(node))
	older := s.MaintainKubevirt(node)
	operator := s.Operator(harness.Options{Args: []string{"--controllers=maintenance-kubevirt"}})
	older.Phase(medik8s.PhaseSucceeded)
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	begun := looks(s.Node(node))
	m := s.Maintain(node, nil)
	operator = s.Operator(harness.Options{Args: []string{"--controllers=maintenance"}})
	m.Condition(plan.ConditionCordoned, "HeldForOtherWork", "nodemaintenances.nodemaintenance.kubevirt.io "+older.Name)
	m.End()
	if now := looks(s.Node(node)); now != begun || s.Holder(node) != maintenance.Holder {
		t.Errorf("the lease is held by %q, and the node is\n%s\nand was\n%s", s.Holder(node), now, begun)
	}
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	s.Operator(harness.Options{})
	older.End()
	givenBack(s, node, before)
	s.AwaitHolder(node, "")
}
