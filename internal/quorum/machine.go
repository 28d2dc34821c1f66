package quorum

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// labelRole says on OpenShift what the Machine's node is for (spec/machine-api.md 13).
const labelRole = "machine.openshift.io/cluster-api-machine-role"

// StandIn is what to ask Check about for a Machine of the control plane whose Node is gone: what runs on its instance, etcd above all, may be
// missed all the same. Nil for other Machines, and for one that never had a Node.
func (g *Guard) StandIn(machine *machinev1beta1.Machine) *corev1.Node {
	labels := machine.Spec.Labels
	_, controlPlane := labels[LabelControlPlane]
	_, master := labels[LabelMaster]
	role, ref := machine.Labels[labelRole], machine.Status.NodeRef
	if ref == nil || !controlPlane && !master && role != "master" && role != "control-plane" {
		return nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ref.Name, Labels: map[string]string{LabelControlPlane: ""}}}
}
