package nodegroup

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/nodegroup/replacement"
	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events on NodeGroups.
const (
	// EventSynced: a roll-out has ended.
	EventSynced = "MetadataSynced"
	// EventStopped: a roll-out, or the replacement of Machines, has stopped, or a roll-out waits for a confirmation.
	EventStopped = "RolloutStopped"
	// EventHistoryNotKept: what the group declares is not kept as a revision.
	EventHistoryNotKept = "HistoryNotKept"
)

// EventDocs describes every event of the capability.
func EventDocs() []status.EventDoc {
	return slices.Concat([]status.EventDoc{
		{Reason: EventSynced, Type: corev1.EventTypeNormal, On: "NodeGroup",
			When: "the roll-out of what the group declares since its last change has ended"},
		{Reason: EventStopped, Type: corev1.EventTypeWarning, On: "NodeGroup",
			When: "a condition of spec.rollout.stopWhen holds, labels that Pods or PersistentVolumes require may go only when a user confirms it, or a " +
				"Machine that replaces an outdated one has failed or is late; the message says what has to happen"},
		{Reason: plan.ReasonNoNodes, Type: corev1.EventTypeWarning, On: "NodeGroup", When: "spec.nodes of a new or changed group selects no Node"},
		{Reason: plan.ReasonOverlapping, Type: corev1.EventTypeWarning, On: "NodeGroup",
			When: "each Node that spec.nodes selects belongs to an older group, so that the group has none"},
		{Reason: plan.ReasonRefusedKeys, Type: corev1.EventTypeWarning, On: "NodeGroup",
			When: "Drover does not write a declared key, because it belongs to the system, is invalid, or is one by which spec.nodes selects Nodes"},
		{Reason: EventHistoryNotKept, Type: corev1.EventTypeWarning, On: "NodeGroup",
			When: "spec.metadata, or the template of a MachineSet, is not kept for `kubectl drover rollout undo`, because it has more than 64 KiB or the " +
				"API server denies the write; the roll-out goes on"},
	}, replacement.Events)
}
