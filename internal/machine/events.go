package machine

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// Reasons of events on Machines. Those of drains are the incumbent's, those of instances what its providers use.
const (
	// EventFailedValidate: the Machine says nothing about its instance, or what cannot be read.
	EventFailedValidate = "FailedValidate"
	// EventCreate: the instance has been made.
	EventCreate = "Create"
	// EventFailedCreate: the provider refuses to make the instance.
	EventFailedCreate = "FailedCreate"
	// EventFailedUpdate: the provider cannot say how the instance is.
	EventFailedUpdate = "FailedUpdate"
	// EventDelete: the instance is gone.
	EventDelete = "Delete"
	// EventFailedDelete: the provider refuses to end the instance.
	EventFailedDelete = "FailedDelete"
	// EventNodeLeft: the Node stays, because the time for its deletion is over.
	EventNodeLeft = "NodeLeft"
	// EventLinkConflict: it is not clear which Node is the Machine's.
	EventLinkConflict = "NodeLinkConflict"
	// EventNotAdopted: the Machine may not adopt the Node with its providerID or address.
	EventNotAdopted = "NodeNotAdopted"
	// EventFailedRelease: a Node that a former Machine of the name has cordoned cannot be released.
	EventFailedRelease = "FailedRelease"
	// EventDrainBlocked: a hook holds up the drain.
	EventDrainBlocked = "DrainBlocked"
	// EventDrainProceeds: the drain begins.
	EventDrainProceeds = "DrainProceeds"
	// EventDrainRequeued: something stands in the way of the drain.
	EventDrainRequeued = "DrainRequeued"
	// EventDrainSucceeded: all pods have left.
	EventDrainSucceeded = "DrainSucceeded"
	// EventDrainSkipped: there is no Node, or it is not to be drained.
	EventDrainSkipped = "DrainSkipped"
	// EventDeleted: the node is drained.
	EventDeleted = "Deleted"
)

// EventDocs describes the events.
func EventDocs() []status.EventDoc {
	return []status.EventDoc{
		{Reason: EventFailedValidate, Type: corev1.EventTypeWarning, On: "Machine", When: "spec.providerSpec.value is missing"},
		{Reason: EventCreate, Type: corev1.EventTypeNormal, On: "Machine", When: "its instance has been made"},
		{Reason: EventFailedCreate, Type: corev1.EventTypeWarning, On: "Machine", When: "the provider does not make the instance; once for each cause"},
		{Reason: EventFailedUpdate, Type: corev1.EventTypeWarning, On: "Machine", When: "the provider cannot say how the instance is; once for each cause"},
		{Reason: EventDelete, Type: corev1.EventTypeNormal, On: "Machine", When: "its instance is gone"},
		{Reason: EventFailedDelete, Type: corev1.EventTypeWarning, On: "Machine", When: "the provider does not end the instance; once for each cause"},
		{Reason: EventNodeLeft, Type: corev1.EventTypeWarning, On: "Machine", When: "its Node could not be deleted in time, and stays; delete it by hand"},
		{Reason: EventLinkConflict, Type: corev1.EventTypeWarning, On: "Machine",
			When: "several Nodes or Machines claim each other, or status.nodeRef names a Node of another Machine"},
		{Reason: EventNotAdopted, Type: corev1.EventTypeWarning, On: "Machine", When: "the Machine may not adopt the Node with its providerID or address"},
		{Reason: EventFailedRelease, Type: corev1.EventTypeWarning, On: "Machine",
			When: "a Node that a former Machine of this name has cordoned cannot be released; once for each cause"},
		{Reason: EventDrainBlocked, Type: corev1.EventTypeNormal, On: "Machine", When: "a preDrain hook holds up the drain"},
		{Reason: EventDrainProceeds, Type: corev1.EventTypeNormal, On: "Machine", When: "the drain of its node begins, and pods have to leave"},
		{Reason: EventDrainRequeued, Type: corev1.EventTypeNormal, On: "Machine", When: "something stands in the way of the drain; once for each cause"},
		{Reason: EventDrainSucceeded, Type: corev1.EventTypeNormal, On: "Machine", When: "its node has been drained"},
		{Reason: EventDrainSkipped, Type: corev1.EventTypeNormal, On: "Machine", When: "there is no node to drain, or an annotation leaves the drain out"},
		{Reason: EventDeleted, Type: corev1.EventTypeNormal, On: "Machine", When: "its node has been drained, and pods had to leave"},
	}
}

// warn and tell send an event unless the last of its kind was the same.
func (p *pass) warn(reason, message string) { p.event(corev1.EventTypeWarning, reason, message) }

func (p *pass) tell(reason, message string) { p.event(corev1.EventTypeNormal, reason, message) }

func (p *pass) event(kind, reason, message string) {
	if p.memory.told[reason] == message {
		return
	}
	p.memory.told[reason] = message
	p.Recorder.Event(p.machine, kind, reason, message)
}
