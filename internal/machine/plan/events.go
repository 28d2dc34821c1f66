package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// Reasons of events on Machines; EventDocs describes them. Those of drains are machine-api-operator's, those of instances its providers'.
const (
	EventFailedValidate = "FailedValidate"
	EventCreate         = "Create"
	EventFailedCreate   = "FailedCreate"
	EventFailedUpdate   = "FailedUpdate"
	EventDelete         = "Delete"
	EventFailedDelete   = "FailedDelete"
	EventInvalidLabel   = "InvalidLabel"
	EventNodeLeft       = "NodeLeft"
	EventLinkConflict   = "NodeLinkConflict"
	EventNotAdopted     = "NodeNotAdopted"
	EventFailedRelease  = "FailedRelease"
	EventDrainBlocked   = "DrainBlocked"
	EventDrainProceeds  = "DrainProceeds"
	EventDrainRequeued  = "DrainRequeued"
	EventDrainSucceeded = "DrainSucceeded"
	EventDrainSkipped   = "DrainSkipped"
	EventDeleted        = "Deleted"
)

// Event is an event on a Machine.
type Event struct{ Type, Reason, Message string }

// Warning returns an event of the type Warning.
func Warning(reason, message string) Event { return Event{corev1.EventTypeWarning, reason, message} }

// Normal returns an event of the type Normal.
func Normal(reason, message string) Event { return Event{corev1.EventTypeNormal, reason, message} }

// EventDocs describes the events.
func EventDocs() []status.EventDoc {
	doc := func(kind, reason, when string) status.EventDoc {
		return status.EventDoc{Reason: reason, Type: kind, On: "Machine", When: when}
	}
	const ok, bad = corev1.EventTypeNormal, corev1.EventTypeWarning
	return []status.EventDoc{
		doc(bad, EventFailedValidate, "spec.providerSpec.value is missing, or an annotation is not a duration; once for each cause"),
		doc(ok, EventCreate, "its instance has been created"),
		doc(bad, EventFailedCreate, "the provider returns an error when it is asked to create the instance; once for each cause"),
		doc(bad, EventFailedUpdate, "the provider returns an error when it is asked for the instance; once for each cause"),
		doc(ok, EventDelete, "its instance has been deleted"),
		doc(bad, EventFailedDelete, "the provider returns an error when it is asked to delete the instance; once for each cause"),
		doc(bad, EventInvalidLabel,
			"what the provider says for the type, the region or the zone is no value for a label; the Machine does not get that label"),
		doc(bad, EventNodeLeft, "its Node could not be deleted in time, and is kept; delete it by hand"),
		doc(bad, EventLinkConflict, "several Nodes or Machines claim each other, or status.nodeRef names a Node of another Machine"),
		doc(bad, EventNotAdopted, "the Machine may not adopt the Node with its providerID or address"),
		doc(bad, EventFailedRelease, "a Node that an earlier Machine of this name has cordoned cannot be released; once for each cause"),
		doc(ok, EventDrainBlocked, "a preDrain hook blocks the drain"),
		doc(ok, EventDrainProceeds, "the drain of its Node has started, and pods have to leave"),
		doc(ok, EventDrainRequeued, "something blocks the drain; once for each cause"),
		doc(ok, EventDrainSucceeded, "its Node has been drained"),
		doc(ok, EventDrainSkipped, "there is no Node to drain, or an annotation skips the drain"),
		doc(ok, EventDeleted, "its Node has been drained, and pods had to leave"),
	}
}

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
