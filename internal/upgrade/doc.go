// Package upgrade gates the upgrade of nodes, as MutexRule, MutexTarget and MutexRunConfig declare it: before each node its Jobs run, then
// that node alone is let go, and the machine-config-operator upgrades it.
//
// What is to be done is decided in its package plan. This package reads the cluster, does what was decided, and reports. Nothing that it
// needs to go on is in its memory: a run is rebuilt from its pools, nodes and Jobs on each pass.
package upgrade
