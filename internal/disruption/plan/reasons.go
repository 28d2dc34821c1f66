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
	// ReasonBudgetExceeded is that of a person's NodeMaintenance that begins although it exceeds the budget.
	ReasonBudgetExceeded = "BudgetExceeded"
)
