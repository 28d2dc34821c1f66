package metadata

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events.
const (
	// EventSynced marks the end of a roll-out on the MachineSet.
	EventSynced = "MetadataSynced"
	// EventConflict marks a declared key that somebody else holds, on the Node and once on the MachineSet.
	EventConflict = "MetadataConflict"
	// EventRefused marks a declared key that belongs to the system, on the MachineSet.
	EventRefused = "MetadataRefused"
	// EventInvalid marks a declared entry, annotation or selector that cannot be used, on the MachineSet.
	EventInvalid = "MetadataInvalid"
	// EventAmbiguous marks a MachineSet with a Machine that other MachineSets select as well and that has no controller.
	EventAmbiguous = "MetadataAmbiguous"
	// EventDuplicate marks a taint that is declared more than once, on the MachineSet.
	EventDuplicate = "MetadataDuplicate"
	// EventBadRecord marks a Node or Machine whose ownership record cannot be read, on the MachineSet.
	EventBadRecord = "MetadataBadRecord"
	// EventUnconfirmed marks a restricted entry that the record on a Node names and that on its Machine does not, on the MachineSet.
	EventUnconfirmed = "MetadataUnconfirmed"
	// EventRepaired marks a hand edit that was undone, on the Node.
	EventRepaired = "MetadataRepaired"
	// EventFight marks a key that another writer changes again and again, on the Node or the Machine.
	EventFight = "MetadataFight"
	// EventDenied marks a write that the API server refuses, on the Node or the Machine.
	EventDenied = "MetadataDenied"
)

// Events describes every event of the capability.
var Events = []status.EventDoc{
	{Reason: EventSynced, Type: corev1.EventTypeNormal, On: "MachineSet", When: "the last Node has what the template declares since its last change"},
	{Reason: EventConflict, Type: corev1.EventTypeWarning, On: "Node, MachineSet",
		When: "a declared key is somebody else's; on the MachineSet once for all Nodes"},
	{Reason: EventRefused, Type: corev1.EventTypeWarning, On: "MachineSet", When: "a declared key belongs to the system and is not written"},
	{Reason: EventInvalid, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "a declared entry, or a drover.dev annotation, cannot be used and is left out; or the selector cannot be read"},
	{Reason: EventAmbiguous, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "the selectors of several MachineSets match a Machine that has no controller: it has no pool"},
	{Reason: EventDuplicate, Type: corev1.EventTypeWarning, On: "MachineSet", When: "a taint is declared more than once; the first counts"},
	{Reason: EventBadRecord, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "an ownership record was edited and cannot be read; nothing is taken as owned"},
	{Reason: EventUnconfirmed, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "a taint or a restricted label is Drover's as the record on the Node has it, but not as that on the Machine has it; it stays"},
	{Reason: EventRepaired, Type: corev1.EventTypeNormal, On: "Node", When: "a declared entry that was changed or removed by hand has been put back"},
	{Reason: EventFight, Type: corev1.EventTypeWarning, On: "Node, Machine",
		When: "a key, or the record of what is Drover's, had to be put back again and again; it is left alone for a while"},
	{Reason: EventDenied, Type: corev1.EventTypeWarning, On: "Node, Machine",
		When: "the API server refuses a write (validation, admission or permission); tried again every five minutes"},
}

// problemEvents maps the reason of a problem to that of its event on the MachineSet. Fights are told on the object itself.
var problemEvents = map[plan.Reason]string{
	plan.InConflict: EventConflict,
	plan.Refused:    EventRefused,
	plan.Invalid:    EventInvalid,
	plan.Duplicate:  EventDuplicate,
	plan.BadRecord:  EventBadRecord,

	plan.Unconfirmed: EventUnconfirmed,
}

// notices sends events to the API server. The recorder is asynchronous, never blocks a worker, and bounds the events of one object.
type notices struct {
	recorder record.EventRecorder
}

func (n notices) normal(object runtime.Object, reason, format string, args ...any) {
	n.recorder.Eventf(object, corev1.EventTypeNormal, reason, format, args...)
}

func (n notices) warning(object runtime.Object, reason, format string, args ...any) {
	n.recorder.Eventf(object, corev1.EventTypeWarning, reason, format, args...)
}
