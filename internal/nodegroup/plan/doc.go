// Package plan decides how a change of a NodeGroup reaches its Nodes: in which waves, what stops it, and what the group reports.
//
// It is pure: the group, its Nodes and the time go in, a Decision comes out. The operator and kubectl drover plan call the same functions.
package plan
