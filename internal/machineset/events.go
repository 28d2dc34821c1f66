package machineset

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events, all on the MachineSet.
const (
	// EventError: the MachineSet cannot be reconciled. It is machine-api-operator's.
	EventError = "ReconcileError"
	// EventCreated and EventDeleted: Machines were created or deleted; those of one reconciliation are one event.
	EventCreated = "SuccessfulCreate"
	EventDeleted = "SuccessfulDelete"
	// EventCreateFailed: Machines cannot be created.
	EventCreateFailed = "FailedCreate"
	// EventAdopted and EventReleased: the MachineSet became, or ceased to be, the controller of Machines.
	EventAdopted  = "AdoptedMachine"
	EventReleased = "ReleasedMachine"
	// EventReplaced: a failed Machine is replaced.
	EventReplaced = "ReplacedFailedMachine"
)

// maxNamed is how many Machines an event names.
const maxNamed = 10

// Events describes every event of the controller.
var Events = []status.EventDoc{
	{Reason: EventError, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "the MachineSet cannot be used, or Machines cannot be created, deleted, adopted or released; once until it is over"},
	{Reason: EventCreateFailed, Type: corev1.EventTypeWarning, On: "MachineSet", When: "Machines cannot be created; once until it is over"},
	{Reason: EventCreated, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "Machines have been created; those of one reconciliation are one event"},
	{Reason: EventDeleted, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "Machines have been deleted because there were too many; those of one reconciliation are one event"},
	{Reason: EventAdopted, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "the MachineSet has adopted Machines that its selector matches and that had no owner"},
	{Reason: EventReleased, Type: corev1.EventTypeNormal, On: "MachineSet",
		When: "the MachineSet has released Machines that its selector does not match any more"},
	{Reason: EventReplaced, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "a Machine in the phase Failed is replaced; only where the configuration enables it"},
}
