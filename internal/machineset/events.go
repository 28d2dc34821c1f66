package machineset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events, all on the MachineSet.
const (
	// EventError marks something that keeps a MachineSet from what it asks for. It is the incumbent's.
	EventError = "ReconcileError"
	// EventCreated and EventDeleted mark Machines that were created or deleted, all those of a pass in one event.
	EventCreated = "SuccessfulCreate"
	EventDeleted = "SuccessfulDelete"
	// EventCreateFailed marks that Machines cannot be created.
	EventCreateFailed = "FailedCreate"
	// EventAdopted and EventReleased mark Machines that joined or left without being created or deleted.
	EventAdopted  = "AdoptedMachine"
	EventReleased = "ReleasedMachine"
	// EventReplaced marks a failed Machine that is replaced.
	EventReplaced = "ReplacedFailedMachine"
)

// maxNamed is how many Machines an event names.
const maxNamed = 10

// Events describes every event of the controller.
var Events = []status.EventDoc{
	{Reason: EventError, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "the MachineSet cannot be used, or Machines cannot be created, deleted, adopted or released; once until it is over"},
	{Reason: EventCreateFailed, Type: corev1.EventTypeWarning, On: "MachineSet", When: "Machines cannot be created; once until it is over"},
	{Reason: EventCreated, Type: corev1.EventTypeNormal, On: "MachineSet", When: "Machines have been created; those of a pass in one event"},
	{Reason: EventDeleted, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "Machines have been deleted because there were too many; those of a pass in one event"},
	{Reason: EventAdopted, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "Machines that nobody owned and the selector matches are the set's now"},
	{Reason: EventReleased, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "Machines that the selector does not match any more are nobody's now"},
	{Reason: EventReplaced, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "a Machine in the phase Failed has been deleted so that another takes its place; only where that is switched on"},
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
