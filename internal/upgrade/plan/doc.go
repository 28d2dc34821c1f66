// Package plan decides what a gated upgrade needs next: which Jobs, which labels of Nodes, which selectors of MachineConfigPools, and what the
// status says.
//
// It is pure: objects and the time go in, decisions come out. docs/compatibility.md lists what the openshift-node-upgrade-mutex-operator does
// differently.
package plan
