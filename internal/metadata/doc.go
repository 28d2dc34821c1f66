// Package metadata writes the labels, annotations and taints of Nodes, for MachineSets and for NodeGroups. It also writes the labels, annotations and
// taints of the Machines of MachineSets. It replaces the managed-node-metadata-operator (MNMO).
//
// The reconciled object is the Node, or a Machine that has none yet. A reconciliation observes the Node, its Machine, MachineSet and NodeGroup in
// caches that show all of Drover's own writes. It lets package plan decide, and applies the decision with at most one patch of the Machine and one of
// the Node. If only the Machine's value shows that the Node's value is Drover's, it writes the Node's ownership record first. Last, it reports what
// it has done, as events and metrics. The layer of NodeGroups is in package grouplayer. The controller watches MachineSets, Machines, Nodes and
// NodeGroups.
package metadata
