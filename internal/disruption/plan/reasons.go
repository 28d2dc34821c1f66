package plan

// Reasons why a request has to wait, or was admitted although the budget has no place.
const (
	ReasonSuspended           = "Suspended"
	ReasonWindowClosed        = "WindowClosed"
	ReasonFrozen              = "Frozen"
	ReasonBudgetExhausted     = "BudgetExhausted"
	ReasonCapabilityExhausted = "CapabilityExhausted"
	ReasonRemediationsLimited = "RemediationsLimited"
	ReasonRemediationInterval = "RemediationInterval"
	ReasonQueued              = "Queued"
	ReasonTooManyReservations = "TooManyReservations"
	// ReasonLease is another holder of the lease of the node.
	ReasonLease = "Lease"
	// ReasonQuorum means that the control plane cannot spare the node, and ReasonQuorumUnknown that nothing may read whether it can.
	ReasonQuorum        = "Quorum"
	ReasonQuorumUnknown = "QuorumUnknown"
	// ReasonBudgetExceeded is the reason of a person's NodeMaintenance that begins although it exceeds the budget.
	ReasonBudgetExceeded = "BudgetExceeded"
)
