package nodegroup

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/nodegroup/nodes"
	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events on NodeGroups.
const (
	// EventSynced: a roll-out is complete.
	EventSynced = "MetadataSynced"
	// EventStopped: a roll-out has stopped.
	EventStopped = "RolloutStopped"
	// EventHistoryNotKept: what the group declares is not kept as a revision.
	EventHistoryNotKept = "HistoryNotKept"
)

// EventDocs describes every event of the capability.
func EventDocs() []status.EventDoc {
	return append([]status.EventDoc{
		{Reason: EventSynced, Type: corev1.EventTypeNormal, On: "NodeGroup", When: "the last Node carries what the group declares since its last change"},
		{Reason: EventStopped, Type: corev1.EventTypeWarning, On: "NodeGroup",
			When: "a condition of spec.rollout.stopWhen holds; the roll-out goes on when the spec changes or a user resumes it"},
		{Reason: EventHistoryNotKept, Type: corev1.EventTypeWarning, On: "NodeGroup",
			When: "spec.metadata is not kept for `kubectl drover rollout undo`, because it has more than 64 KiB or the API server denies the write; the " +
				"roll-out goes on"},
	}, nodes.Events...)
}
