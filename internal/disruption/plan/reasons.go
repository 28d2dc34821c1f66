package plan

// Reasons for which a request has to wait, or was admitted although the budget has no place.
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
	// ReasonQuorum is a control plane that cannot spare the node, ReasonQuorumUnknown one of which that may not be read.
	ReasonQuorum        = "Quorum"
	ReasonQuorumUnknown = "QuorumUnknown"
	// ReasonBudgetExceeded is that of a person's NodeMaintenance that begins although it exceeds the budget.
	ReasonBudgetExceeded = "BudgetExceeded"
)
