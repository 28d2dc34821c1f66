// Package machineapi holds the facts of machine.openshift.io/v1beta1 that several controllers and the CLI share: which Machines belong to a
// MachineSet, and which Node a Machine names. It imports no client.
package machineapi
