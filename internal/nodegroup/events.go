package nodegroup

import (
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// Reasons of the events on NodeGroups.
const (
	// EventSynced (Normal on NodeGroup): the roll-out of what the group declares since its last change has ended.
	EventSynced = "MetadataSynced"
	// EventStopped (Warning on NodeGroup): a condition of spec.rollout.stopWhen holds, labels that Pods or PersistentVolumes require may go only when a
	// user confirms it, or a Machine that replaces an outdated one has failed or is late; the message says what has to happen.
	EventStopped = "RolloutStopped"
	// EventNoNodes (Warning on NodeGroup): spec.nodes of a new or changed group selects no Node.
	EventNoNodes = plan.ReasonNoNodes
	// EventOverlapping (Warning on NodeGroup): each Node that spec.nodes selects belongs to an older group, so that the group has none.
	EventOverlapping = plan.ReasonOverlapping
	// EventRefusedKeys (Warning on NodeGroup): Drover does not write a declared key, because it belongs to the system, is invalid, or is one by which
	// spec.nodes selects Nodes.
	EventRefusedKeys = plan.ReasonRefusedKeys
	// EventHistoryNotKept (Warning on NodeGroup): spec.metadata, or the template of a MachineSet, is not kept for `kubectl drover rollout undo`,
	// because it has more than 64 KiB or the API server denies the write; the roll-out goes on.
	EventHistoryNotKept = "HistoryNotKept"
)
