package maintenance

import "github.com/drover-io/drover/internal/status"

// Reasons of events. The first five are the incumbent's.
const (
	EventBegin          = "BeginMaintenance"
	EventSucceeded      = "SucceedMaintenance"
	EventFailed         = "FailedMaintenance"
	EventUncordon       = "UncordonNode"
	EventRemoved        = "RemovedMaintenance"
	EventBlocked        = "DrainBlocked"
	EventCordonRestored = "CordonRestored"
)

// EventDocs describes the events of this capability.
func EventDocs() []status.EventDoc {
	const kind = "NodeMaintenance"
	return []status.EventDoc{
		{Reason: EventBegin, Type: "Normal", On: kind, When: "the maintenance is accepted; its finalizer is on the object"},
		{Reason: EventSucceeded, Type: "Normal", On: kind, When: "the node is drained for the first time"},
		{Reason: EventFailed, Type: "Warning", On: kind, When: "the maintenance cannot go on; lastError says why"},
		{Reason: EventRemoved, Type: "Normal", On: kind, When: "the node has been given back and the finalizer removed"},
		{Reason: EventUncordon, Type: "Normal", On: "Node", When: "the node has been given back"},
		{Reason: EventBlocked, Type: "Warning", On: kind,
			When: "pods cannot leave as things are, or the deadline is over; the message says which pods and why"},
		{Reason: EventCordonRestored, Type: "Warning", On: kind, When: "somebody else uncordoned the node or took its marks away, and they were put back"},
	}
}
