// Package nodegroup is the capability that keeps groups of Nodes as NodeGroups declare, on any cluster: what they carry, and in which waves a change
// reaches them.
//
// The reconciled object is the NodeGroup. A reconciliation observes the group and its Nodes, has package replacement replace outdated Machines and
// package plan decide which Nodes a roll-out has reached, admits these for package nodes, which writes them, and writes the status.
package nodegroup
