// Package metadata is the capability that carries labels, annotations and taints from a MachineSet's template to the Machines and
// Nodes that exist already. It replaces the managed-node-metadata-operator (MNMO).
//
// The work item is the Machine. A pass gathers the Machine, its MachineSet and its Node from caches, has the plan package decide,
// and acts with at most one patch of the Machine and one of the Node; where the Machine's value is the only proof that the Node's is
// Drover's, the Node's record is written before. MachineSets, Machines and Nodes are all watched.
package metadata
