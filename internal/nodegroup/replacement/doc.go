// Package replacement replaces Machines that no longer match the template of their MachineSet, for NodeGroups with spec.replacement.
//
// It is a step of the reconciliation of a NodeGroup, after the group and its Nodes have been observed and before its status is written. The step
// observes the Machines of the group's MachineSets in caches that show all of Drover's own writes, has package plan decide which are replaced now,
// and marks or deletes them. A Machine that is marked as being replaced does not count for its MachineSet, so that internal/machineset creates the
// new one beside it. It is deleted as any other one, with hooks, lease and drain, once the new one is available and the budget of the group has a
// place for its Node. What the step reports goes into the status of the group.
package replacement
