// Package plan decides what the upgrade of gated nodes needs next: which Jobs, which labels, which selectors of MachineConfigPools.
//
// It is pure: objects and the time go in, decisions come out. What the openshift-node-upgrade-mutex-operator did differently is listed in
// docs/compatibility.md.
package plan
