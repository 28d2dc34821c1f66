package plan

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/paused"
)

// labelZone is the label of a Machine that has no Node yet.
const labelZone = "machine.openshift.io/zone"

// NewSet returns a MachineSet, which must have replicas, without Machines.
func NewSet(set *machinev1beta1.MachineSet) Set {
	return Set{Name: set.Name, Replicas: int(*set.Spec.Replicas), Paused: paused.By(set) != ""}
}

// NewMachine returns a Machine of the MachineSet with a template. node is its Node, nil for none, and selects reports whether the group selects that.
// Whether the Node is synced and leased, and the deletion of the Machine denied, is left to the caller.
func NewMachine(
	template *machineapi.Template, machine *machinev1beta1.Machine, node *corev1.Node, selects func(*corev1.Node) bool,
) Machine {
	replacing := machineapi.IsReplacing(machine)
	_, skipped := machine.Annotations[machineapi.SkipReplacementAnnotation]
	m := Machine{
		Name: machine.Name, UID: machine.UID, Zone: machine.Labels[labelZone], Created: machine.CreationTimestamp.Time,
		Outdated: template.Outdates(machine), Replacing: replacing, Deleting: machine.DeletionTimestamp != nil,
		HasNode: machine.Status.NodeRef != nil, Marked: machineapi.IsMarked(machine), DeletionBegun: machineapi.HasDeletionMark(machine),
		Failed: machineapi.HasFailed(machine), Skipped: skipped || paused.By(machine) != "",
	}
	if node != nil {
		m.HasNode, m.Zone = true, node.Labels[corev1.LabelTopologyZone]
		m.Ready, m.ReadyChange = nodestate.IsReady(node), nodestate.ReadyChange(node)
		// One of the control plane, for example, that the group does not include.
		m.Skipped = m.Skipped || !selects(node)
	}
	return m
}
