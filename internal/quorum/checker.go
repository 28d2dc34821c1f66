package quorum

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/nodestate"
)

// labelRole is the label of a Machine with the role of its node on OpenShift.
const labelRole = "machine.openshift.io/cluster-api-machine-role"

// MissingNode returns what to check for a control-plane Machine whose Node is gone: its instance may still run a working member of etcd. It is nil
// for other Machines, and for a Machine that never had a Node.
func (g *Guard) MissingNode(machine *machinev1beta1.Machine) *corev1.Node {
	role, ref := machine.Labels[labelRole], machine.Status.NodeRef
	if ref == nil || !nodestate.IsControlPlane(machine.Spec.Labels) && role != "master" && role != "control-plane" {
		return nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Labels: map[string]string{nodestate.LabelControlPlane: ""}}}
}

// Checker checks whether the control plane can spare a node. It is what controllers use of a Guard.
type Checker interface {
	// Applies reports whether the node belongs to the control plane.
	Applies(node *corev1.Node) bool
	// Check returns why the node cannot be spared now; empty when it can. It asks the API server itself, not a cache.
	Check(ctx context.Context, node *corev1.Node) (denial string, err error)
	// Lock lets one caller at a time, of all capabilities, check and then disrupt a node. What is done under the lock uses the context that it
	// returns, which ends after a while.
	Lock(ctx context.Context) (bounded context.Context, unlock func())
}

// MachineChecker is a Checker for nodes whose Machines are deleted or remediated. It is what controllers use of MachineGuard.
type MachineChecker interface {
	Checker
	// MissingNode returns what to check for a control-plane Machine whose Node is gone; nil for other Machines.
	MissingNode(machine *machinev1beta1.Machine) *corev1.Node
}

var _ MachineChecker = MachineGuard{}

// MachineGuard checks nodes before their Machines are deleted. The instances do not come back, so it is stricter than the Guard of NodeMaintenances:
// enough nodes have to stay ready and schedulable on OpenShift, too, whatever the PodDisruptionBudget of etcd allows. machine-api-operator waits
// there while another control-plane node is cordoned.
type MachineGuard struct{ *Guard }

// ForMachines returns the guard for the deletion of Machines.
func (g *Guard) ForMachines() MachineGuard { return MachineGuard{g} }

// Check returns why the control plane cannot spare a node now; empty when it can.
func (g MachineGuard) Check(ctx context.Context, node *corev1.Node) (denial string, err error) {
	denial, err = g.Guard.Check(ctx, node)
	if err != nil || denial != "" {
		return denial, err
	}
	if openShift, err := g.onOpenShift(ctx); err != nil || !openShift {
		return "", err // Guard.Check has counted the nodes
	}
	members, err := g.members(ctx)
	if err != nil {
		return "", err
	}
	return g.checkNodes(ctx, node.Name, members, true)
}
