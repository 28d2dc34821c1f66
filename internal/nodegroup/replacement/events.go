package replacement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// EventReplaced is the reason of the event on a Machine that is deleted because it is outdated.
const EventReplaced = "OutdatedMachineReplaced"

// EventHistoryNotKept is the reason of the event on a NodeGroup of whose MachineSets a template is not kept. It is that of the group's metadata.
const EventHistoryNotKept = "HistoryNotKept"

// Events describes the events of the controller that the one of NodeGroups does not emit.
var Events = []status.EventDoc{
	{Reason: EventReplaced, Type: corev1.EventTypeNormal, On: "Machine",
		When: "the Machine is deleted because it does not match the template of its MachineSet, and its NodeGroup replaces such Machines"},
}
