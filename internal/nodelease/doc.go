// Package nodelease controls who may disrupt a node. There is one lease per node, which every controller that drains, deletes or remediates the
// node acquires first: those of Drover and those of the medik8s family (node-maintenance-operator, Node Health Check) alike.
//
// The lease is a coordination.k8s.io/v1 Lease in the medik8s format: namespace medik8s-leases, name node-NAME, 3600 s, owned by its
// Node so that it is deleted with it. Every write is guarded: when two controllers take over an expired lease, one of them gets a conflict.
package nodelease
