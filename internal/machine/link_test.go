package machine

import (
	"cmp"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodestate"
)

// runningByAddress is a Machine that runs on a Node which has no providerID yet and was found by its address.
func runningByAddress(t *testing.T) *fixture {
	t.Helper()
	node := nodeOf("m")
	node.Spec.ProviderID, node.Status.Addresses = "", instanceOf("m").Addresses
	s := newFixture(t, machineOf("m"), node, podOf("p", "m"))
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	s.emitted()
	return s
}

// reuse gives the address, and so the Node, to another Machine, as the Node's providerID shows.
func (s *fixture) reuse(t *testing.T) {
	t.Helper()
	node := s.node("m")
	node.Spec.ProviderID = "cloud:///other"
	if err := s.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

func TestLink_StaleNodeRefIsCleared(t *testing.T) {
	s := runningByAddress(t)
	s.reuse(t)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseProvisioned, "Ready=AwaitingNode")
	if ref := s.machine("m").Status.NodeRef; ref != nil {
		t.Errorf("nodeRef is %+v", ref)
	}
	if got := s.emitted(); got != plan.EventLinkConflict {
		t.Errorf("events %s", got)
	}
}

// The providerID of the Machine itself may be missing. It is proof enough if another Machine has the Node's providerID.
func TestLink_NodeOfAnotherMachineByItsProviderID(t *testing.T) {
	s := runningByAddress(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Spec.ProviderID = nil })
	s.cloud.instances["m"].ProviderID = ""
	other := machineOf("other")
	other.Spec.ProviderID = new("cloud:///other")
	s.create(other)
	s.reuse(t)
	s.settle("m")
	if ref := s.machine("m").Status.NodeRef; ref != nil {
		t.Errorf("nodeRef is %+v", ref)
	}
}

func TestDelete_LeavesTheNodeOfAnotherMachine(t *testing.T) {
	s := runningByAddress(t)
	s.reuse(t)
	s.delete("m")
	s.settle("m")
	node := s.node("m")
	if s.machine("m") != nil || node == nil || node.Spec.Unschedulable || len(s.leases()) != 0 || len(s.cloud.instances) != 0 {
		t.Errorf("the Machine is %v, the Node %v, the leases %v", s.machine("m"), node, s.leases())
	}
}

// A Machine gets a Node that its provider knows as its instance. It adopts another Node, or a Node that existed before the Machine, only if its
// namespace may adopt Nodes, and never a Node of the control plane.
func TestLink_Adoption(t *testing.T) {
	before, after := metav1.NewTime(start.Add(-time.Hour)), metav1.NewTime(start)
	master := map[string]string{nodestate.LabelMaster: ""}
	for name, c := range map[string]struct {
		allowed []string
		created metav1.Time
		labels  map[string]string
		linked  *corev1.ObjectReference
		// instance is what the provider has for the Machine; empty for the Node.
		instance string
		want     bool
	}{
		"older Node, no namespace allowed":    {nil, before, nil, nil, "", false},
		"older Node, namespace allowed":       {[]string{"machines"}, before, nil, nil, "", true},
		"older Node, another one allowed":     {[]string{"other"}, before, nil, nil, "", false},
		"older Node, all allowed":             {[]string{"*"}, before, nil, nil, "", true},
		"older control-plane Node":            {[]string{"*"}, before, map[string]string{nodestate.LabelControlPlane: ""}, nil, "", false},
		"younger Node":                        {nil, after, nil, nil, "", true},
		"younger control-plane Node":          {nil, after, master, nil, "", true},
		"younger Node, another instance":      {nil, after, nil, nil, "another", false},
		"the same, namespace allowed":         {[]string{"machines"}, after, nil, nil, "another", true},
		"the same, control-plane Node":        {[]string{"*"}, after, master, nil, "another", false},
		"older Node that is linked already":   {nil, before, nil, &corev1.ObjectReference{Kind: "Node", Name: "m", UID: "uid-of-node-m"}, "", true},
		"older Node, another one was linked ": {nil, before, nil, &corev1.ObjectReference{Kind: "Node", Name: "m", UID: "another"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeOf("m")
			node.CreationTimestamp, node.Labels = c.created, c.labels
			machine := machineOf("m")
			machine.Spec.ProviderID, machine.Status.NodeRef = &node.Spec.ProviderID, c.linked
			s := newFixture(t, machine, node, podOf("p", "m"))
			s.options.AdoptionNamespaces = c.allowed
			s.cloud.instances["m"] = instanceOf(cmp.Or(c.instance, "m"))
			s.settle("m")
			if ready := s.machine("m").Status.Conditions; c.want {
				s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
				return
			} else if len(ready) == 0 {
				t.Fatal("no conditions")
			}
			if c.linked == nil {
				s.expect("m", machinev1beta1.PhaseProvisioned, "Ready=NodeNotAdopted")
			}
			s.delete("m")
			s.settle("m")
			if node := s.node("m"); s.machine("m") != nil || node == nil || node.Spec.Unschedulable {
				t.Errorf("the Machine is %v, the Node %v", s.machine("m"), node)
			}
		})
	}
}

// A Machine is deleted after a restart, before nodeRef was written: the provider is asked whose instance the Node is. If the provider has lost it,
// what Drover has recorded in the status counts.
func TestDelete_AsksWhoseInstanceTheNodeIs(t *testing.T) {
	for name, c := range map[string]struct {
		// instance is what the provider has for the Machine, and recorded the address in the status; empty for none.
		instance, recorded string
		deleted            bool
	}{
		"its instance":                       {"m", "10.0.0.1", true},
		"another instance":                   {"another", "10.0.0.1", false},
		"lost instance, its address":         {"", "10.0.0.1", true},
		"lost instance, another address":     {"", "10.0.0.9", false},
		"lost instance, no address recorded": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			machine, node := machineOf("m"), nodeOf("m")
			node.Status.Addresses = instanceOf("m").Addresses
			machine.Spec.ProviderID, machine.Finalizers = &node.Spec.ProviderID, []string{machinev1beta1.MachineFinalizer}
			if c.recorded != "" {
				machine.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: c.recorded}}
			}
			s := newFixture(t, machine, node)
			if c.instance != "" {
				s.cloud.instances["m"] = instanceOf(c.instance)
			}
			s.delete("m")
			s.settle("m")
			if gone := s.node("m") == nil; s.machine("m") != nil || gone != c.deleted {
				t.Errorf("the Machine is %v, the Node %v", s.machine("m"), s.node("m"))
			}
		})
	}
}
