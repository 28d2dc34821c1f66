package quorum

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// labelRole says on OpenShift what the Machine's node is for.
const labelRole = "machine.openshift.io/cluster-api-machine-role"

// MissingNode is what to ask Check about for a Machine of the control plane whose Node is gone: what runs on its instance, etcd above all, may be
// missed all the same. Nil for other Machines, and for one that never had a Node.
func (g *Guard) MissingNode(machine *machinev1beta1.Machine) *corev1.Node {
	labels := machine.Spec.Labels
	_, controlPlane := labels[LabelControlPlane]
	_, master := labels[LabelMaster]
	role, ref := machine.Labels[labelRole], machine.Status.NodeRef
	if ref == nil || !controlPlane && !master && role != "master" && role != "control-plane" {
		return nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Labels: map[string]string{LabelControlPlane: ""}}}
}

// MachineGuard guards the control plane against the deletion of its Machines. Their instances do not come back, so it is stricter than the Guard of
// NodeMaintenances: on OpenShift, too, enough nodes have to stay ready and schedulable, whatever the budget of etcd allows. There
// machine-api-operator waits as long as another control-plane node is cordoned.
type MachineGuard struct{ *Guard }

// ForMachines returns the guard for the deletion of Machines.
func (g *Guard) ForMachines() MachineGuard { return MachineGuard{g} }

// Check says why the control plane cannot spare a node now; empty when it can.
func (g MachineGuard) Check(ctx context.Context, node *corev1.Node) (denial string, err error) {
	denial, err = g.Guard.Check(ctx, node)
	if err != nil || denial != "" {
		return denial, err
	}
	if openShift, err := g.onOpenShift(ctx); err != nil || !openShift {
		return "", err // the Guard has counted the nodes
	}
	members, err := g.members(ctx)
	if err != nil {
		return "", err
	}
	return decidePlain(node.Name, members), nil
}
