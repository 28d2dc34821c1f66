// Package nodes writes to each Node what its NodeGroup declares: labels, annotations and taints.
//
// The reconciled object is the Node. A reconciliation observes the Node and its group in caches that show all of Drover's own writes, has package
// metadata/plan decide, and applies the decision with at most one patch. A manual edit is undone at once, and a Node that has just registered is
// written at once; a change of the group reaches a Node when the group's roll-out has admitted it (Admissions).
package nodes
