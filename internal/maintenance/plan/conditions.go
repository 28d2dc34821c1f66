package plan

import (
	"github.com/drover-io/drover/internal/status"
)

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
	ReasonReady            = "InMaintenance"
	ReasonHeld             = "Held"
	ReasonCordoned         = "Cordoned"
	ReasonDrained          = "Drained"
	ReasonNoNode           = "NodeNotFound"
	ReasonOtherFirst       = "AnotherNodeMaintenance"
	ReasonQuorum           = "ControlPlaneQuorum"
	ReasonQuorumUnknown    = "ControlPlaneQuorumUnknown"
	ReasonWaitingForBudget = "WaitingForBudget"
	ReasonHeldByOther      = "HeldByOther"
	ReasonLost             = "Lost"
	ReasonBadRecord        = "RecordUnreadable"
	ReasonBadRules         = "RulesInvalid"
	ReasonOtherOwner       = "HeldForOtherWork"
	ReasonUncordoned       = "UncordonedByOther"
	ReasonDryRun           = "DryRun"
	ReasonDraining         = "Draining"
	ReasonBlocked          = "Blocked"
	ReasonPodsReturn       = "PodsReturn"
	ReasonLate             = "DeadlineExceeded"
	ReasonMinimumTime      = "AwaitingLatePods"
	ReasonVolumes          = "VolumesAttached"
	ReasonNotStarted       = "NotStarted"
	ReasonDenied           = "Denied"
	ReasonPaused           = "Paused"
	ReasonNamespace        = "LeaseNamespaceMissing"
)

// ConditionDocs describes the reasons, in the order in which they come up.
func ConditionDocs() []status.ConditionDoc {
	return status.ConditionsOn("NodeMaintenance", []status.ConditionDoc{
		{Type: ConditionReady, Reason: ReasonReady,
			When: "True: the node is leased, cordoned and drained; you can work on it. Otherwise Ready has the reason of the first condition " +
				"that is not True"},
		{Type: ConditionLeaseHeld, Reason: ReasonHeld, When: "True: Drover holds the node's lease, and renews it"},
		{Type: ConditionLeaseHeld, Reason: ReasonHeldByOther, When: "another holder has the node's lease; the message says who, and until when"},
		{Type: ConditionLeaseHeld, Reason: ReasonLost, When: "another holder has acquired the lease that Drover held"},
		{Type: ConditionLeaseHeld, Reason: ReasonNamespace,
			When: "the namespace of the leases does not exist, and Drover may not create it; create it"},
		{Type: ConditionLeaseHeld, Reason: ReasonDenied, When: "the API server denies the request to write the lease; the message says why"},
		{Type: ConditionCordoned, Reason: ReasonCordoned, When: "True: the node is cordoned, and has the taints and the label"},
		{Type: ConditionCordoned, Reason: ReasonUncordoned, When: "another writer uncordoned the node, and the policy is Report"},
		{Type: ConditionCordoned, Reason: ReasonOtherOwner,
			When: "the node is cordoned for a Machine, or for a NodeMaintenance of a group that is not served now; the message says for which. " +
				"The node's lease is left to it"},
		{Type: ConditionCordoned, Reason: ReasonBadRecord,
			When: "the cordon record on the node cannot be read, or names no object that can have cordoned the node"},
		{Type: ConditionCordoned, Reason: ReasonDenied, When: "the API server denies the change of the node"},
		{Type: ConditionCordoned, Reason: ReasonQuorum, When: "the control plane cannot spare the node now"},
		{Type: ConditionCordoned, Reason: ReasonQuorumUnknown,
			When: "the API server does not let Drover find out whether the control plane can spare the node; the message says which permission is missing"},
		{Type: ConditionCordoned, Reason: ReasonWaitingForBudget,
			When: "the budget of the node's NodeGroup has no place, its windows are closed, or it is suspended; the message says which limit, and who has " +
				"the places"},
		{Type: ConditionDrained, Reason: ReasonDrained, When: "True: every pod that has to leave has left"},
		{Type: ConditionDrained, Reason: ReasonDraining, When: "pods are leaving"},
		{Type: ConditionDrained, Reason: ReasonBlocked, When: "some pods cannot leave until something changes; the message says which and why"},
		{Type: ConditionDrained, Reason: ReasonPodsReturn,
			When: "an owner puts pods on the node although it is cordoned, and they are evicted less and less often; the message names it, and says " +
				"what to do"},
		{Type: ConditionDrained, Reason: ReasonLate, When: "the deadline is over, and pods are left"},
		{Type: ConditionDrained, Reason: ReasonVolumes, When: "the pods have left, their volumes are still attached"},
		{Type: ConditionDrained, Reason: ReasonMinimumTime, When: "the pods have left, the minimum time is not over"},
		{Type: ConditionDrained, Reason: ReasonDryRun, When: "spec.drain.dryRun is set; the message says what would be done"},
		{Type: ConditionDrained, Reason: ReasonBadRules, When: "a selector in spec.drain.podRules is invalid"},
		{Type: ConditionReady, Reason: ReasonPaused,
			When: "the annotation drover.dev/paused is set: nothing is done, also when the object is deleted; the other conditions are from before"},
		{Type: ConditionReady, Reason: ReasonNoNode, When: "there is no node of this name"},
		{Type: ConditionReady, Reason: ReasonOtherFirst, When: "an older NodeMaintenance names the same node"},
		{Type: ConditionDrained, Reason: ReasonNotStarted,
			When: "another condition has to be True first; Ready has its reason. LeaseHeld and Cordoned can have it, too"},
	})
}

// Condition is the state of one condition. The zero value is one that has not been reached.
type Condition struct {
	Met             bool
	Reason, Message string
}
