package plan

// Reasons for which a request has to wait, or was admitted although the budget has no place.
const (
	// ReasonSuspended (no condition): spec.suspend is set.
	ReasonSuspended = "Suspended"
	// ReasonBudgetExceeded (Blocked=True): more Nodes are unavailable than spec.disruption.maxUnavailable allows.
	ReasonBudgetExceeded = "BudgetExceeded"
	// ReasonBudgetExhausted (Blocked=True): disruptions wait, and as many Nodes are unavailable as spec.disruption.maxUnavailable allows.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonCapabilityExhausted (Blocked=True): disruptions wait, and the first one is of a capability that has as many Nodes as
	// spec.disruption.perCapability allows.
	ReasonCapabilityExhausted = "CapabilityExhausted"
	// ReasonRemediationsLimited (Blocked=True): disruptions wait, and the first one is a remediation, of which spec.disruption.remediation.maxInFlight
	// are in flight.
	ReasonRemediationsLimited = "RemediationsLimited"
	// ReasonRemediationInterval (Blocked=True): disruptions wait, and the first one is a remediation that begins after
	// spec.disruption.remediation.minInterval.
	ReasonRemediationInterval = "RemediationInterval"
	// ReasonTooManyReservations (Blocked=True): disruptions wait, and as many are in flight as can be recorded.
	ReasonTooManyReservations = "TooManyReservations"
	// ReasonWindowClosed (Blocked=True): disruptions wait until a window of spec.disruption.windows opens.
	ReasonWindowClosed = "WindowClosed"
	// ReasonFrozen (Blocked=True): disruptions wait for the end of a freeze of spec.disruption.freezes.
	ReasonFrozen = "Frozen"
	// ReasonQueued (no condition): an earlier request has its turn first, or the admission is too old.
	ReasonQueued = "Queued"
	// ReasonJoining (no condition): the Node has just registered, and is about to get its Machine, and with that its NodeGroup.
	ReasonJoining = "Joining"
	// ReasonLease (no condition): another holder has the lease of the node.
	ReasonLease = "Lease"
	// ReasonQuorum (no condition): the control plane cannot spare the node.
	ReasonQuorum = "Quorum"
	// ReasonQuorumUnknown (no condition): the state of the control plane may not be read.
	ReasonQuorumUnknown = "QuorumUnknown"
)
