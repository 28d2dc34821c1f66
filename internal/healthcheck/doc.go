// Package healthcheck remediates unhealthy Machines: those that have failed, or whose Node has not appeared in time, is gone or is unhealthy, one
// after another and only as long as not too many are. It replaces the MachineHealthCheck controller of machine-api-operator.
//
// A reconciliation observes the Machines that a MachineHealthCheck selects and their Nodes in caches, has package plan decide, starts as many
// remediations as may be in flight, and writes the status last.
package healthcheck
