// Package healthcheck is the controller of MachineHealthChecks: Machines that have failed, whose Node never came, is gone or is unhealthy
// are remediated, one after another, as long as not too many are. It replaces the machine-healthcheck controller of the
// machine-api-operator.
//
// The work item is the MachineHealthCheck. A pass gathers the Machines that it selects and their Nodes from caches, decides (decide.go, health.go and backoff.go,
// pure), begins as many remediations as there is room for, and writes the status last.
package healthcheck
