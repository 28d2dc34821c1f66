package metadata

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events.
const (
	// EventSynced: a rollout is complete, on the MachineSet.
	EventSynced = "MetadataSynced"
	// EventConflict: another writer set a declared key first, on the Node and once on the MachineSet.
	EventConflict = "MetadataConflict"
	// EventRefused: a declared key belongs to the system, on the MachineSet.
	EventRefused = "MetadataRefused"
	// EventInvalid: a declared entry, annotation or selector cannot be used, on the MachineSet.
	EventInvalid = "MetadataInvalid"
	// EventAmbiguous: a MachineSet selects a Machine without a controller that other MachineSets select as well, on the MachineSet.
	EventAmbiguous = "MetadataAmbiguous"
	// EventDuplicate: a taint is declared more than once, on the MachineSet.
	EventDuplicate = "MetadataDuplicate"
	// EventBadRecord: the ownership record of a Node or Machine cannot be read, on the MachineSet.
	EventBadRecord = "MetadataBadRecord"
	// EventUnconfirmed: the record on a Node names a restricted entry that the record on its Machine does not, on the MachineSet.
	EventUnconfirmed = "MetadataUnconfirmed"
	// EventNoExecuteRefused: a taint with the effect NoExecute is held back, on the MachineSet.
	EventNoExecuteRefused = "MetadataNoExecuteRefused"
	// EventStopped: a roll-out in waves has stopped, on the MachineSet.
	EventStopped = "MetadataRolloutStopped"
	// EventRepaired: what another writer changed was undone, on the Node.
	EventRepaired = "MetadataRepaired"
	// EventContention: another writer keeps changing a key, on the Node or the Machine.
	EventContention = "MetadataFight"
	// EventDenied: the API server denies a write, on the Node or the Machine.
	EventDenied = "MetadataDenied"
)

// Events describes every event of the capability.
var Events = []status.EventDoc{
	{Reason: EventSynced, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "the last Node carries what the template declares since its last change"},
	{Reason: EventConflict, Type: corev1.EventTypeWarning, On: "Node, MachineSet",
		When: "another writer set a declared key to another value first; on the MachineSet once for all Nodes"},
	{Reason: EventRefused, Type: corev1.EventTypeWarning, On: "MachineSet", When: "a declared key belongs to the system and is not written"},
	{Reason: EventInvalid, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "a declared entry or a drover.dev annotation is invalid and ignored; or the selector is invalid"},
	{Reason: EventAmbiguous, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "the selectors of several MachineSets match a Machine that has no controller: none of them applies to it"},
	{Reason: EventDuplicate, Type: corev1.EventTypeWarning, On: "MachineSet", When: "a taint is declared more than once; the first counts"},
	{Reason: EventBadRecord, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "an ownership record was edited and cannot be read; no key counts as owned"},
	{Reason: EventUnconfirmed, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "the ownership record on the Node names a taint or a restricted label that the record on the Machine does not; Drover does not remove it"},
	{Reason: EventNoExecuteRefused, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "a taint with the effect NoExecute is held back: the Node is in no NodeGroup, and metadata.rollout.noExecute.policy of the " +
			"configuration is Refuse"},
	{Reason: EventStopped, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "the waves of metadata.rollout of the configuration have stopped: too many Nodes have become NotReady"},
	{Reason: EventRepaired, Type: corev1.EventTypeNormal, On: "Node",
		When: "another writer changed or removed a declared entry, and Drover has restored it"},
	{Reason: EventContention, Type: corev1.EventTypeWarning, On: "Node, Machine",
		When: "another writer keeps changing a key, or removing the ownership record; Drover leaves it alone for a while"},
	{Reason: EventDenied, Type: corev1.EventTypeWarning, On: "Node, Machine",
		When: "the API server denies a write (validation, admission or permission); Drover tries again after 5 seconds, and later every five minutes"},
}

// problemEvents maps the reason of a problem to that of its event on the MachineSet. Contention is reported on the object itself.
var problemEvents = map[plan.Reason]string{
	plan.InConflict:  EventConflict,
	plan.Refused:     EventRefused,
	plan.Invalid:     EventInvalid,
	plan.Duplicate:   EventDuplicate,
	plan.BadRecord:   EventBadRecord,
	plan.Unconfirmed: EventUnconfirmed,

	plan.NoExecuteRefused: EventNoExecuteRefused,
}
