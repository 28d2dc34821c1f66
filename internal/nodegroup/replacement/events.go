package replacement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// EventReplaced is the reason of the event on a Machine that is deleted because it is outdated.
const EventReplaced = "OutdatedMachineReplaced"

// Events describes the events.
var Events = []status.EventDoc{
	{Reason: EventReplaced, Type: corev1.EventTypeNormal, On: "Machine",
		When: "the Machine is deleted because it does not match the template of its MachineSet, and its NodeGroup replaces such Machines"},
}
