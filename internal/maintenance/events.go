package maintenance

import "github.com/drover-io/drover/internal/status"

// Reasons of events. The first five are node-maintenance-operator's.
const (
	EventBegin          = "BeginMaintenance"
	EventSucceeded      = "SucceedMaintenance"
	EventFailed         = "FailedMaintenance"
	EventUncordon       = "UncordonNode"
	EventRemoved        = "RemovedMaintenance"
	EventBlocked        = "DrainBlocked"
	EventPodsReturn     = "PodsReturn"
	EventCordonRestored = "CordonRestored"
	EventBudgetExceeded = "BudgetExceeded"
)

// EventDocs describes the events of this capability.
func EventDocs() []status.EventDoc {
	const kind = "NodeMaintenance"
	return []status.EventDoc{
		{Reason: EventBegin, Type: "Normal", On: kind, When: "the maintenance is accepted; its finalizer is on the object"},
		{Reason: EventSucceeded, Type: "Normal", On: kind, When: "the node is drained for the first time"},
		{Reason: EventFailed, Type: "Warning", On: kind, When: "the maintenance cannot go on; lastError says why"},
		{Reason: EventRemoved, Type: "Normal", On: kind, When: "the node has been released and the finalizer removed"},
		{Reason: EventUncordon, Type: "Normal", On: "Node", When: "the node has been uncordoned, and has what it had before the maintenance"},
		{Reason: EventBlocked, Type: "Warning", On: kind,
			When: "pods cannot leave until something changes, or the deadline is over; the message says which pods and why"},
		{Reason: EventPodsReturn, Type: "Warning", On: kind,
			When: "an owner puts pods on the node although it is cordoned; the message names it, and says what to do"},
		{Reason: EventBudgetExceeded, Type: "Warning", On: kind,
			When: "the maintenance begins, because a user created it, although the budget of the node's NodeGroup is used up, no window is open or the " +
				"group is suspended"},
		{Reason: EventCordonRestored, Type: "Warning", On: kind,
			When: "another writer uncordoned the node or removed its taints or label, and Drover restored them"},
	}
}
