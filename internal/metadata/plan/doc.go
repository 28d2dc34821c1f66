// Package plan decides what a MachineSet's declared labels, annotations and taints change on one Machine and its Node.
//
// It is pure: objects and the time go in, a Decision comes out, and the patches are rendered from the Decision. The operator and
// `kubectl drover plan` call the same functions, so what the plan shows is what the operator does. What
// the managed-node-metadata-operator did differently is listed in docs/compatibility.md.
package plan
