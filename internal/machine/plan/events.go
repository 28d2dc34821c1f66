package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of events on Machines. Those of drains are machine-api-operator's, those of instances its providers'.
const (
	// EventFailedValidate (Warning on Machine): spec.providerSpec.value is missing, or an annotation is not a duration; once for each cause.
	EventFailedValidate = "FailedValidate"
	// EventCreate (Normal on Machine): its instance has been created.
	EventCreate = "Create"
	// EventFailedCreate (Warning on Machine): the provider returns an error when it is asked to create the instance; once for each cause.
	EventFailedCreate = "FailedCreate"
	// EventFailedUpdate (Warning on Machine): the provider returns an error when it is asked for the instance; once for each cause.
	EventFailedUpdate = "FailedUpdate"
	// EventDelete (Normal on Machine): its instance has been deleted.
	EventDelete = "Delete"
	// EventFailedDelete (Warning on Machine): the provider returns an error when it is asked to delete the instance; once for each cause.
	EventFailedDelete = "FailedDelete"
	// EventInvalidLabel (Warning on Machine): what the provider says for the type, the region or the zone is no value for a label; the Machine does not
	// get that label.
	EventInvalidLabel = "InvalidLabel"
	// EventNodeLeft (Warning on Machine): its Node could not be deleted in time, and is kept; delete it by hand.
	EventNodeLeft = "NodeLeft"
	// EventLinkConflict (Warning on Machine): several Nodes or Machines claim each other, or status.nodeRef names a Node of another Machine.
	EventLinkConflict = "NodeLinkConflict"
	// EventNotAdopted (Warning on Machine): the Machine may not adopt the Node with its providerID or address.
	EventNotAdopted = "NodeNotAdopted"
	// EventFailedRelease (Warning on Machine): a Node that an earlier Machine of this name has cordoned cannot be released; once for each cause.
	EventFailedRelease = "FailedRelease"
	// EventDrainBlocked (Normal on Machine): a preDrain hook blocks the drain.
	EventDrainBlocked = "DrainBlocked"
	// EventDrainProceeds (Normal on Machine): the drain of its Node has started, and pods have to leave.
	EventDrainProceeds = "DrainProceeds"
	// EventDrainRequeued (Normal on Machine): something blocks the drain; once for each cause.
	EventDrainRequeued = "DrainRequeued"
	// EventDrainSucceeded (Normal on Machine): its Node has been drained.
	EventDrainSucceeded = "DrainSucceeded"
	// EventDrainSkipped (Normal on Machine): there is no Node to drain, or an annotation skips the drain.
	EventDrainSkipped = "DrainSkipped"
	// EventDeleted (Normal on Machine): its Node has been drained, and pods had to leave.
	EventDeleted = "Deleted"
)

// Event is an event on a Machine.
type Event struct{ Type, Reason, Message string }

// Warning returns an event of the type Warning.
func Warning(reason, message string) Event { return Event{corev1.EventTypeWarning, reason, message} }

// Normal returns an event of the type Normal.
func Normal(reason, message string) Event { return Event{corev1.EventTypeNormal, reason, message} }

// Events returns what is reported when the reconciliation ends.
func Events(in *Input, wait *Wait) []Event {
	events := []Event{wait.Event, in.Link.event(), in.invalidLabels()}
	if in.Machine.DeletionTimestamp != nil && HasFinalizer(in.Machine) {
		_, drain := duration(in.Machine, AnnotationDrainTimeout, in.Settings.DrainTimeout)
		_, node := duration(in.Machine, AnnotationNodeDeletionTimeout, in.Settings.NodeDeletionTimeout)
		if problems := strings.TrimPrefix(strings.TrimSuffix(drain+"; "+node, "; "), "; "); problems != "" {
			events = append(events, Warning(EventFailedValidate, problems))
		}
	}
	if in.keepsNode() {
		events = append(events, Warning(EventNodeLeft, fmt.Sprintf("Node %s could not be deleted in time and is kept; delete it by hand: %v",
			in.NodeDeletion.Node.Name, in.NodeDeletion.Err)))
	}
	return slices.DeleteFunc(events, func(e Event) bool { return e == Event{} })
}
