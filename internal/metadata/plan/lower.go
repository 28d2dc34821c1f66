package plan

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// Lower is what the layer of MachineSets has to know of the one below it, the Node's NodeGroup. The zero value is that of a Node without one.
type Lower struct {
	// Group is the name of the NodeGroup that decides about taints with the effect NoExecute, and Guarded are those of the MachineSet that the Node gets
	// from it: after Pods have left that do not tolerate them. With Guarded alone the Node does not get them.
	Group   string
	Guarded ownership.Keys
	// Kept are the entries that the group keeps on the Node: those with the same value stay when the MachineSet does not declare them any more.
	Kept Entries
	// Owned are the keys that the Node has from a group. What the MachineSet declares counts there, and is no conflict.
	Owned ownership.Section
}

// AsksLower reports whether a decision for the MachineSet of a Node depends on its NodeGroup: taints may be guarded, the Node has keys that its
// MachineSet, nil for none, does not declare any more, or has lost some lately, or has another value than what is declared.
func AsksLower(node *corev1.Node, declaration *Declaration) bool {
	return declaration != nil && (declaration.HasNoExecute() || declaration.disagrees(node)) || losesKeys(node, declaration)
}

// disagrees reports whether a Node has another value of a key than what is declared for it.
func (d *Declaration) disagrees(node *corev1.Node) bool {
	return differs(d.Desired[ownership.Label], node.Labels) || differs(d.Desired[ownership.Annotation], node.Annotations) ||
		differs(d.Desired[ownership.Taint], ownership.TaintEntries(node.Spec.Taints))
}
