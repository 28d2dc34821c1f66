package plan

// Conditions of a NodeMaintenance.
const (
	// ConditionReady: the node is in maintenance: leased, cordoned and drained.
	ConditionReady = "Ready"
	// ConditionLeaseHeld: Drover holds the node's lease.
	ConditionLeaseHeld = "LeaseHeld"
	// ConditionCordoned: the node has the cordon, the taints and the label.
	ConditionCordoned = "Cordoned"
	// ConditionDrained: every pod that has to leave has left.
	ConditionDrained = "Drained"
)

// Reasons of the conditions. Each may be any condition's, unless it says otherwise.
const (
	// ReasonReady (Ready=True): the node is leased, cordoned and drained; you can work on it. Otherwise Ready has the reason of the first condition
	// that is not True.
	ReasonReady = "InMaintenance"
	// ReasonHeld (LeaseHeld=True): Drover holds the node's lease, and renews it.
	ReasonHeld = "Held"
	// ReasonHeldByOther (LeaseHeld): another holder has the node's lease; the message says who, and until when.
	ReasonHeldByOther = "HeldByOther"
	// ReasonLost (LeaseHeld): another holder has acquired the lease that Drover held.
	ReasonLost = "Lost"
	// ReasonNamespace (LeaseHeld): the namespace of the leases does not exist, and Drover may not create it; create it.
	ReasonNamespace = "LeaseNamespaceMissing"
	// ReasonDenied (LeaseHeld): the API server denies the request to write the lease; the message says why.
	//
	// ReasonDenied (Cordoned): the API server denies the change of the node.
	ReasonDenied = "Denied"
	// ReasonCordoned (Cordoned=True): the node is cordoned, and has the taints and the label.
	ReasonCordoned = "Cordoned"
	// ReasonUncordoned (Cordoned): another writer uncordoned the node, and the policy is Report.
	ReasonUncordoned = "UncordonedByOther"
	// ReasonOtherOwner (Cordoned): the node is cordoned for a Machine, or for a NodeMaintenance of a group that is not served now; the message says for
	// which. The node's lease is left to it.
	ReasonOtherOwner = "HeldForOtherWork"
	// ReasonBadRecord (Cordoned): the cordon record on the node cannot be read, or names no object that can have cordoned the node.
	ReasonBadRecord = "RecordUnreadable"
	// ReasonQuorum (Cordoned): the control plane cannot spare the node now.
	ReasonQuorum = "ControlPlaneQuorum"
	// ReasonQuorumUnknown (Cordoned): the API server does not let Drover find out whether the control plane can spare the node; the message says which
	// permission is missing.
	ReasonQuorumUnknown = "ControlPlaneQuorumUnknown"
	// ReasonWaitingForBudget (Cordoned): the budget of the node's NodeGroup has no place, its windows are closed, or it is suspended; the message says
	// which limit, and who has the places.
	ReasonWaitingForBudget = "WaitingForBudget"
	// ReasonDrained (Drained=True): every pod that has to leave has left.
	ReasonDrained = "Drained"
	// ReasonDraining (Drained): pods are leaving.
	ReasonDraining = "Draining"
	// ReasonBlocked (Drained): some pods cannot leave until something changes; the message says which and why.
	ReasonBlocked = "Blocked"
	// ReasonPodsReturn (Drained): an owner puts pods on the node although it is cordoned, and they are evicted less and less often; the message names
	// it, and says what to do.
	ReasonPodsReturn = "PodsReturn"
	// ReasonLate (Drained): the deadline is over, and pods are left.
	ReasonLate = "DeadlineExceeded"
	// ReasonVolumes (Drained): the pods have left, their volumes are still attached.
	ReasonVolumes = "VolumesAttached"
	// ReasonMinimumTime (Drained): the pods have left, the minimum time is not over.
	ReasonMinimumTime = "AwaitingLatePods"
	// ReasonDryRun (Drained): spec.drain.dryRun is set; the message says what would be done.
	ReasonDryRun = "DryRun"
	// ReasonBadRules (Drained): a selector in spec.drain.podRules is invalid.
	ReasonBadRules = "RulesInvalid"
	// ReasonPaused (Ready): the annotation drover.dev/paused is set: nothing is done, also when the object is deleted; the other conditions are from
	// before.
	ReasonPaused = "Paused"
	// ReasonNoNode (Ready): there is no node of this name.
	ReasonNoNode = "NodeNotFound"
	// ReasonOtherFirst (Ready): an older NodeMaintenance names the same node.
	ReasonOtherFirst = "AnotherNodeMaintenance"
	// ReasonNotStarted (Drained): another condition has to be True first; Ready has its reason. LeaseHeld and Cordoned can have it, too.
	ReasonNotStarted = "NotStarted"
)

// Condition is the state of one condition. The zero value is one that has not been reached.
type Condition struct {
	Met             bool
	Reason, Message string
}
