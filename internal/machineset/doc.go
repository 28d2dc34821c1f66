// Package machineset is the capability that keeps as many Machines as a MachineSet asks for. It replaces the MachineSet controller of
// the machine-api-operator.
//
// The work item is the MachineSet. A pass gathers its Machines and their Nodes from caches that are known to show Drover's own writes,
// has the plan package decide, adopts or creates or deletes, and writes the status as it is after that.
package machineset
