package maintenance

// Reasons of events. The first five are node-maintenance-operator's.
const (
	// EventBegin (Normal on NodeMaintenance): the maintenance is accepted; its finalizer is on the object.
	EventBegin = "BeginMaintenance"
	// EventSucceeded (Normal on NodeMaintenance): the node is drained for the first time.
	EventSucceeded = "SucceedMaintenance"
	// EventFailed (Warning on NodeMaintenance): the maintenance cannot go on; lastError says why.
	EventFailed = "FailedMaintenance"
	// EventRemoved (Normal on NodeMaintenance): the node has been released and the finalizer removed.
	EventRemoved = "RemovedMaintenance"
	// EventUncordon (Normal on Node): the node has been uncordoned, and has what it had before the maintenance.
	EventUncordon = "UncordonNode"
	// EventBlocked (Warning on NodeMaintenance): pods cannot leave until something changes, or the deadline is over; the message says which pods and
	// why.
	EventBlocked = "DrainBlocked"
	// EventPodsReturn (Warning on NodeMaintenance): an owner puts pods on the node although it is cordoned; the message names it, and says what to do.
	EventPodsReturn = "PodsReturn"
	// EventBudgetExceeded (Warning on NodeMaintenance): the maintenance begins, because a user created it, although the budget of the node's NodeGroup
	// is used up, no window is open or the group is suspended.
	EventBudgetExceeded = "BudgetExceeded"
	// EventCordonRestored (Warning on NodeMaintenance): another writer uncordoned the node or removed its taints or label, and Drover restored them.
	EventCordonRestored = "CordonRestored"
)
