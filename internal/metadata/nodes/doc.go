// Package nodes decides what Nodes get from their NodeGroups, and guards their taints with the effect NoExecute.
//
// It is a layer of the controller of metadata, which writes the Nodes: Begin observes a Node and its group in caches that show all of Drover's own
// writes, and has package metadata/plan decide; End reports what has come of the write. A manual edit is undone at once, and a Node that has just
// registered is written at once; a change of the group reaches a Node when the group's roll-out has admitted it (gate.Gate).
package nodes
