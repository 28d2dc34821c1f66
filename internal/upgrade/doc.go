// Package upgrade gates the upgrade of nodes, as MutexRules, MutexTargets and MutexRunConfigs declare it: the Jobs of the rules run before each node
// is released, and then the machine-config-operator upgrades only that node.
//
// Package plan decides. This package observes the cluster, carries the plan out, and writes the status. A run is resolved from its
// MachineConfigPools, Nodes and Jobs in each reconciliation; nothing that it needs to continue is kept in memory.
package upgrade
