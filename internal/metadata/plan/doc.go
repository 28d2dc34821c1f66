// Package plan decides what the declared labels, annotations and taints of a MachineSet change on one Machine and its Node.
//
// It is pure: objects and the time go in, a Decision comes out, and the patches are rendered from the Decision. The operator and
// `kubectl drover plan` call the same functions, so that what the command shows is what the operator does. docs/compatibility.md lists what
// the managed-node-metadata-operator does differently.
package plan
