// Package machineset keeps the number of Machines that a MachineSet asks for. It replaces the MachineSet controller of machine-api-operator.
//
// A reconciliation observes the Machines of a MachineSet and their Nodes in caches that show all of Drover's own writes, has package plan decide,
// applies the decision (adopt, release, create, delete, replace), and writes the status as it is after that.
package machineset
