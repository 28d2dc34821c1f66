package maintenance

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	reasonReady         = "InMaintenance"
	reasonHeld          = "Held"
	reasonCordoned      = "Cordoned"
	reasonDrained       = "Drained"
	reasonNoNode        = "NodeNotFound"
	reasonRival         = "AnotherNodeMaintenance"
	reasonQuorum        = "ControlPlaneQuorum"
	reasonQuorumUnknown = "ControlPlaneQuorumUnknown"
	reasonHolder        = "HeldByOther"
	reasonLost          = "Lost"
	reasonBadRecord     = "RecordUnreadable"
	reasonBadRules      = "RulesInvalid"
	reasonForeign       = "HeldForOtherWork"
	reasonUncordon      = "UncordonedByOther"
	reasonDryRun        = "DryRun"
	reasonDraining      = "Draining"
	reasonBlocked       = "Blocked"
	reasonLate          = "DeadlineExceeded"
	reasonLatecomer     = "AwaitingLatePods"
	reasonVolumes       = "VolumesAttached"
	reasonWaiting       = "NotStarted"
	reasonDenied        = "Denied"
	reasonPaused        = "Paused"
	reasonNamespace     = "LeaseNamespaceMissing"
)

// ConditionDocs describes the reasons, in the order in which they come up.
func ConditionDocs() []status.ConditionDoc {
	return []status.ConditionDoc{
		{Type: ConditionReady, Reason: reasonReady,
			When: "True: the node is leased, cordoned and drained; hands on. Else Ready has the reason of the first condition that is not met"},
		{Type: ConditionLeaseHeld, Reason: reasonHeld, When: "True: Drover holds the node's lease, and renews it"},
		{Type: ConditionLeaseHeld, Reason: reasonHolder, When: "somebody else holds the node's lease; the message says who, and until when"},
		{Type: ConditionLeaseHeld, Reason: reasonLost, When: "the lease was Drover's and is somebody else's now"},
		{Type: ConditionLeaseHeld, Reason: reasonNamespace,
			When: "the namespace of the leases does not exist, and Drover may not create it; create it"},
		{Type: ConditionLeaseHeld, Reason: reasonDenied, When: "the API server refuses to have the lease written; the message says why"},
		{Type: ConditionCordoned, Reason: reasonCordoned, When: "True: the node is cordoned, and has the taints and the label"},
		{Type: ConditionCordoned, Reason: reasonUncordon, When: "somebody uncordoned the node, and the policy is Report"},
		{Type: ConditionCordoned, Reason: reasonForeign,
			When: "the node is cordoned for a Machine, or for a NodeMaintenance of a group that is not served now; the message says for which. " +
				"The node's lease is left to it"},
		{Type: ConditionCordoned, Reason: reasonBadRecord,
			When: "the record of what was there before cannot be read, or names no object that can have cordoned the node"},
		{Type: ConditionCordoned, Reason: reasonDenied, When: "the API server refuses the change of the node"},
		{Type: ConditionCordoned, Reason: reasonQuorum, When: "the control plane cannot spare the node now"},
		{Type: ConditionCordoned, Reason: reasonQuorumUnknown,
			When: "the API server does not let Drover find out whether the control plane can spare the node; the message says which permission is missing"},
		{Type: ConditionDrained, Reason: reasonDrained, When: "True: every pod that has to leave has left"},
		{Type: ConditionDrained, Reason: reasonDraining, When: "pods are leaving"},
		{Type: ConditionDrained, Reason: reasonBlocked, When: "some pods cannot leave as things are; the message says which and why"},
		{Type: ConditionDrained, Reason: reasonLate, When: "the deadline is over, and pods are left"},
		{Type: ConditionDrained, Reason: reasonVolumes, When: "the pods have left, their volumes are still attached"},
		{Type: ConditionDrained, Reason: reasonLatecomer, When: "the pods have left, the minimum time is not over"},
		{Type: ConditionDrained, Reason: reasonDryRun, When: "spec.drain.dryRun is set; the message says what would be done"},
		{Type: ConditionDrained, Reason: reasonBadRules, When: "a selector in spec.drain.podRules cannot be read"},
		{Type: ConditionReady, Reason: reasonPaused,
			When: "the annotation drover.dev/paused is set: nothing is done, also when the object is deleted; the other conditions are from before"},
		{Type: ConditionReady, Reason: reasonNoNode, When: "there is no node of this name"},
		{Type: ConditionReady, Reason: reasonRival, When: "an older NodeMaintenance names the same node"},
		{Type: ConditionDrained, Reason: reasonWaiting,
			When: "another condition is in the way; Ready has its reason. LeaseHeld and Cordoned can have it, too"},
	}
}

// step is how far one condition is.
type step struct {
	met             bool
	reason, message string
}

func (s step) condition(kind string, generation int64, now metav1.Time) metav1.Condition {
	value := metav1.ConditionFalse
	if s.met {
		value = metav1.ConditionTrue
	}
	return metav1.Condition{
		Type: kind, Status: value, Reason: s.reason, Message: status.Shorten(s.message, status.MaxMessage), ObservedGeneration: generation,
		LastTransitionTime: now,
	}
}
