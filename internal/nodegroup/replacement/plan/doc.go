// Package plan decides which outdated Machines of a NodeGroup are replaced now, and what keeps the others waiting.
//
// It is pure: the group, its MachineSets with their Machines, and the time go in, a Decision comes out. Nothing is remembered between two decisions:
// how far a replacement is follows from the Machines.
package plan
