// Package metadata is the capability that applies labels, annotations and taints of a MachineSet's template to the Machines and Nodes that exist
// already. It replaces the managed-node-metadata-operator (MNMO).
//
// The reconciled object is the Machine. A reconciliation observes the Machine, its MachineSet and its Node in caches that show all of Drover's own
// writes, has package plan decide, and applies the decision with at most one patch of the Machine and one of the Node; where only the Machine's
// value shows that the Node's is Drover's, the Node's ownership record is written before. What has been done is reported last, as events and
// metrics. MachineSets, Machines and Nodes are all watched.
package metadata
