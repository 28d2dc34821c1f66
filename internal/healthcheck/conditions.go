package healthcheck

import (
	"cmp"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/status"
)

// Conditions of a MachineHealthCheck. The incumbent's are in the API: RemediationAllowed, ExternalRemediationTemplateAvailable and
// ExternalRemediationRequestAvailable.
const (
	// ConditionProgressing: every Machine that is to be remediated is, or will be without anybody's help.
	ConditionProgressing machinev1beta1.ConditionType = "RemediationProgressing"
	// ConditionExclusive: no other MachineHealthCheck selects one of these Machines.
	ConditionExclusive machinev1beta1.ConditionType = "SelectorExclusive"
	// ConditionPaused: the MachineHealthCheck is paused; everything else in the status is from before.
	ConditionPaused machinev1beta1.ConditionType = "Paused"
)

// Reasons of the conditions.
const (
	reasonTooMany         = machinev1beta1.TooManyUnhealthyReason
	reasonInvalidLimit    = "InvalidMaxUnhealthy"
	reasonInvalidSelector = "InvalidSelector"

	reasonNothing       = "NothingToRemediate"
	reasonRemediating   = "Remediating"
	reasonNoTemplate    = machinev1beta1.ExternalRemediationTemplateNotFound
	reasonNoRequest     = machinev1beta1.ExternalRemediationRequestCreationFailed
	reasonFailed        = "RemediationFailed"
	reasonQuorum        = "ControlPlaneQuorum"
	reasonQuorumUnknown = "ControlPlaneQuorumUnknown"
	reasonLease         = "LeaseHeldByOther"
	reasonBackoff       = "BackingOff"
	reasonElder         = "LeftToOlder"
	reasonNoController  = "NoController"
	reasonAuthority     = "AuthoritativeAPINotMachineAPI"
	reasonMachinePaused = "MachinePaused"
	reasonSkipped       = "SkippedByAnnotation"

	reasonExclusive = "NoOverlap"
	reasonOverlap   = "Overlapping"
	reasonPaused    = "PausedByAnnotation"
)

// rankOfObstacles orders what is in the way: what somebody should look at comes first, what somebody has asked for last.
var rankOfObstacles = []string{
	reasonFailed, reasonNoTemplate, reasonNoRequest, reasonQuorumUnknown, reasonQuorum, reasonLease, reasonBackoff,
	reasonElder, reasonNoController, reasonAuthority, reasonMachinePaused, reasonSkipped,
}

// severityOf says how bad an obstacle is: those from reasonElder on are as somebody wants them to be.
func severityOf(reason string) machinev1beta1.ConditionSeverity {
	if slices.Index(rankOfObstacles, reason) >= slices.Index(rankOfObstacles, reasonElder) {
		return machinev1beta1.ConditionSeverityInfo
	}
	return machinev1beta1.ConditionSeverityWarning
}

// ConditionDocs describes the conditions and their reasons.
func ConditionDocs() []status.ConditionDoc {
	const (
		allowed     = string(machinev1beta1.RemediationAllowedCondition)
		template    = string(machinev1beta1.ExternalRemediationTemplateAvailable)
		request     = string(machinev1beta1.ExternalRemediationRequestAvailable)
		progressing = string(ConditionProgressing)
	)
	return []status.ConditionDoc{
		{Type: allowed, Reason: reasonTooMany, When: "more Machines than maxUnhealthy are not healthy; True has no reason"},
		{Type: allowed, Reason: reasonInvalidLimit, When: "maxUnhealthy cannot be read"},
		{Type: allowed, Reason: reasonInvalidSelector, When: "the selector cannot be read; no Machine is looked at"},
		{Type: template, Reason: reasonNoTemplate, When: "the remediation template cannot be read; tried again by itself"},
		{Type: request, Reason: reasonNoRequest, When: "a remediation request cannot be made, or the kind cannot be listed; tried again by itself"},
		{Type: progressing, Reason: reasonNothing, When: "True: there is nothing to do"},
		{Type: progressing, Reason: reasonRemediating, When: "True: Machines are being remediated, one after another, or by somebody outside"},
		{Type: progressing, Reason: reasonTooMany, When: "there is something to do, and RemediationAllowed is False"},
		{Type: progressing, Reason: reasonFailed, When: "the API server refuses a deletion or an annotation, or cannot be reached; tried again by itself"},
		{Type: progressing, Reason: reasonNoTemplate, When: "a Machine waits for the remediation template"},
		{Type: progressing, Reason: reasonNoRequest, When: "the remediation request of a Machine cannot be made"},
		{Type: progressing, Reason: reasonQuorum, When: "the control plane cannot spare the node now"},
		{Type: progressing, Reason: reasonQuorumUnknown,
			When: "the API server does not let Drover find out whether the control plane can spare the node; the message says which permission is missing"},
		{Type: progressing, Reason: reasonLease, When: "somebody else works on the node, and has its lease; the message says who"},
		{Type: progressing, Reason: reasonBackoff, When: "replacements of the owner's Machines fail, too; the message says until when the next waits"},
		{Type: progressing, Reason: reasonElder, When: "an older MachineHealthCheck selects the Machine, too, and acts on it"},
		{Type: progressing, Reason: reasonNoController, When: "nobody would replace the Machine, so it is not deleted"},
		{Type: progressing, Reason: reasonAuthority, When: "the Machine is another API's"},
		{Type: progressing, Reason: reasonMachinePaused, When: "the Machine is paused by its annotation"},
		{Type: progressing, Reason: reasonSkipped, When: "an annotation of the Machine says that it is not to be remediated"},
		{Type: string(ConditionExclusive), Reason: reasonExclusive, When: "True: no other MachineHealthCheck selects one of these Machines"},
		{Type: string(ConditionExclusive), Reason: reasonOverlap, When: "another one does; the message says which of the two acts"},
		{Type: string(ConditionPaused), Reason: reasonPaused, When: "True: the annotation is set, and nothing is done; else there is no such condition"},
	}
}

// state is what a condition is to say. The zero value takes the condition away.
type state struct {
	status          corev1.ConditionStatus
	severity        machinev1beta1.ConditionSeverity
	reason, message string
}

func met(reason, message string) state {
	return state{status: corev1.ConditionTrue, reason: reason, message: message}
}

func unmet(severity machinev1beta1.ConditionSeverity, reason, message string) state {
	return state{status: corev1.ConditionFalse, severity: severity, reason: reason, message: message}
}

// setCondition puts a condition into a list, which stays sorted by type. Its time moves only when it says something else.
func setCondition(conditions []machinev1beta1.Condition, kind machinev1beta1.ConditionType, s state, now time.Time) []machinev1beta1.Condition {
	if s.status == "" {
		return slices.DeleteFunc(conditions, func(c machinev1beta1.Condition) bool { return c.Type == kind })
	}
	s.message = status.Shorten(s.message, status.MaxMessage)
	at := slices.IndexFunc(conditions, func(c machinev1beta1.Condition) bool { return c.Type == kind })
	if at >= 0 && stateOf(&conditions[at]) == s {
		return conditions
	}
	made := machinev1beta1.Condition{
		Type: kind, Status: s.status, Severity: s.severity, Reason: s.reason, Message: s.message,
		LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}
	if at >= 0 {
		conditions[at] = made
		return conditions
	}
	conditions = append(conditions, made)
	slices.SortStableFunc(conditions, func(a, b machinev1beta1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return conditions
}

// findState returns what a condition says, the zero value when there is none.
func findState(conditions []machinev1beta1.Condition, kind machinev1beta1.ConditionType) state {
	for i := range conditions {
		if conditions[i].Type == kind {
			return stateOf(&conditions[i])
		}
	}
	return state{}
}

func stateOf(condition *machinev1beta1.Condition) state {
	return state{status: condition.Status, severity: condition.Severity, reason: condition.Reason, message: condition.Message}
}
