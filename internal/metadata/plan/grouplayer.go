package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// GroupLayer is what a Node has from its NodeGroup, as far as a decision for its MachineSet depends on it. The zero value is for a Node without a
// NodeGroup.
type GroupLayer struct {
	// Name is the NodeGroup that decides about taints with the effect NoExecute; empty if none does.
	Name string
	// Guarded are the MachineSet's taints that the NodeGroup sets, after it has evicted the Pods that do not tolerate them. If Name is empty, the Node
	// does not get them.
	Guarded ownership.Keys
	// Kept are the entries that the NodeGroup keeps on the Node. An entry with the same value stays when the MachineSet stops to declare it.
	Kept Entries
	// Owned are the keys that the NodeGroup has set on the Node. A key that the MachineSet declares, too, gets the MachineSet's value, without a
	// conflict.
	Owned ownership.Section
}

// DependsOnGroup reports whether a decision for a Node's MachineSet depends on the Node's NodeGroup. It does if the NodeGroup may guard a taint, if
// the Node has another value than the MachineSet declares, or if the Node loses a key, or has lost one lately. declaration is nil without a
// MachineSet.
func DependsOnGroup(node *corev1.Node, declaration *Declaration) bool {
	return declaration != nil && (declaration.HasNoExecute() || declaration.disagrees(node)) || losesKeys(node, declaration)
}

// disagrees reports whether the Node has another value than the declaration for any key.
func (d *Declaration) disagrees(node *corev1.Node) bool {
	return differs(d.Desired[ownership.Label], node.Labels) || differs(d.Desired[ownership.Annotation], node.Annotations) ||
		differs(d.Desired[ownership.Taint], ownership.TaintEntries(node.Spec.Taints))
}
