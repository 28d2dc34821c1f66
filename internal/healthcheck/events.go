package healthcheck

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// Reasons of events. The first seven are the incumbent's.
const (
	EventRestricted       = "RemediationRestricted"
	EventDetected         = "DetectedUnhealthy"
	EventNoController     = "SkippedNoController"
	EventDeleted          = "MachineDeleted"
	EventDeletionFailed   = "MachineDeletionFailed"
	EventAnnotationAdded  = "ExternalAnnotationAdded"
	EventAnnotationFailed = "ExternalAnnotationFailed"
	EventRequested        = "ExternalRemediationRequested"
	EventRequestFailed    = "ExternalRemediationRequestFailed"
	EventDeferred         = "RemediationDeferred"
	EventOverlap          = "SelectorOverlap"
)

// EventDocs describes the events of this controller.
func EventDocs() []status.EventDoc {
	const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning
	return []status.EventDoc{
		{Reason: EventRestricted, Type: warning, On: "MachineHealthCheck",
			When: "remediation is not allowed any more, because too many Machines are not healthy or maxUnhealthy cannot be read; " +
				"while that lasts again, at most every five minutes"},
		{Reason: EventDetected, Type: normal, On: "Machine",
			When: "the Machine is to be remediated, or will be when a condition of its Node lasts; once, and not for a start that takes its time"},
		{Reason: EventNoController, Type: normal, On: "Machine", When: "the Machine should be deleted, but nobody would replace it"},
		{Reason: EventDeleted, Type: normal, On: "Machine", When: "the Machine has been deleted, so that its owner makes a new one"},
		{Reason: EventDeletionFailed, Type: warning, On: "Machine", When: "the deletion was refused or failed; tried again by itself"},
		{Reason: EventAnnotationAdded, Type: normal, On: "Machine", When: "the Machine has been handed over to the bare metal operator"},
		{Reason: EventAnnotationFailed, Type: warning, On: "Machine", When: "that was refused or failed; tried again by itself"},
		{Reason: EventRequested, Type: normal, On: "Machine", When: "a remediation request has been made for the Machine from the template"},
		{Reason: EventRequestFailed, Type: warning, On: "Machine", When: "that was not possible; tried again by itself"},
		{Reason: EventDeferred, Type: warning, On: "Machine",
			When: "the Machine is to be deleted and has to wait: for the node's lease, for the control plane, or because replacements keep failing"},
		{Reason: EventOverlap, Type: warning, On: "MachineHealthCheck", When: "another MachineHealthCheck selects one of the same Machines"},
	}
}

// eventsOfObstacles says which event tells of an obstacle. Those that are as somebody wants them are in the condition alone.
var eventsOfObstacles = map[string]string{
	reasonNoController:  EventNoController,
	reasonNoTemplate:    EventRequestFailed,
	reasonNoRequest:     EventRequestFailed,
	reasonQuorum:        EventDeferred,
	reasonQuorumUnknown: EventDeferred,
	reasonLease:         EventDeferred,
	reasonBackoff:       EventDeferred,
}

// tellObstacle sends the event for an obstacle that is new.
func (p *pass) tellObstacle(o *obstacle) {
	reason := eventsOfObstacles[o.reason]
	if o.event != "" {
		reason = o.event
	}
	kind := corev1.EventTypeWarning
	switch reason {
	case "":
		return
	case EventNoController:
		kind = corev1.EventTypeNormal
	}
	p.recorder.Eventf(o.machine, kind, reason, "MachineHealthCheck %s: %s", p.key.Name, o.message)
}
