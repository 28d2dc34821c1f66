// Package plan decides what a NodeGroup does and reports: how far its roll-out is, which package rollout decides, and its conditions.
//
// It is pure: the group, its Nodes and the time go in, a Decision comes out. The operator and kubectl drover plan call the same functions.
package plan
