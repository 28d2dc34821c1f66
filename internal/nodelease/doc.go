// Package nodelease says who may disrupt a node now. There is one lease per node, which everything that drains, deletes or remediates it
// takes first: Drover's own capabilities and the medik8s family (node-maintenance-operator, Node Health Check) alike.
//
// The lease is a coordination.k8s.io/v1 Lease in the medik8s format: namespace medik8s-leases, name node-NAME, 3600 s, owned by its
// Node so that it goes with it. Every write is guarded: a take-over that somebody else made first is seen as a conflict, not undone.
package nodelease
