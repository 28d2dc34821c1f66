package plan

import (
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/status"
)

// Conditions of a MachineHealthCheck. Those of machine-api-operator are in the API: RemediationAllowed, ExternalRemediationTemplateAvailable and
// ExternalRemediationRequestAvailable.
const (
	// ConditionProgressing: every Machine that needs remediation is remediated, or will be without a user's help.
	ConditionProgressing machinev1beta1.ConditionType = "RemediationProgressing"
	// ConditionExclusive: no other MachineHealthCheck selects one of these Machines.
	ConditionExclusive machinev1beta1.ConditionType = "SelectorExclusive"
	// ConditionPaused: the MachineHealthCheck is paused; the rest of the status is not kept up.
	ConditionPaused machinev1beta1.ConditionType = "Paused"
)

// Reasons of the conditions.
const (
	ReasonTooMany         = machinev1beta1.TooManyUnhealthyReason
	ReasonInvalidLimit    = "InvalidMaxUnhealthy"
	ReasonInvalidLimits   = "InvalidRemediationLimits"
	ReasonInvalidSelector = "InvalidSelector"

	ReasonNothing         = "NothingToRemediate"
	ReasonRemediating     = "Remediating"
	ReasonNoTemplate      = machinev1beta1.ExternalRemediationTemplateNotFound
	ReasonTemplateRefused = "RemediationTemplateRefused"
	ReasonNoRequest       = machinev1beta1.ExternalRemediationRequestCreationFailed
	ReasonFailed          = "RemediationFailed"
	ReasonQuorum          = "ControlPlaneQuorum"
	ReasonQuorumUnknown   = "ControlPlaneQuorumUnknown"
	ReasonLease           = "LeaseHeldByOther"
	ReasonBackoff         = "BackingOff"
	ReasonLimited         = "RemediationLimited"
	ReasonBudget          = "WaitingForBudget"
	ReasonOlderCheck      = "LeftToOlder"
	ReasonNoController    = "NoController"
	ReasonAuthority       = "AuthoritativeAPINotMachineAPI"
	ReasonUndecodable     = "Undecodable"
	ReasonMachinePaused   = "MachinePaused"
	ReasonSkipped         = "SkippedByAnnotation"

	ReasonExclusive = "NoOverlap"
	ReasonOverlap   = "Overlapping"
	ReasonPaused    = "PausedByAnnotation"
)

// BlockedReasons are the reasons of Blocked, in the order in which a condition reports them: what needs attention first, what is intended last.
var BlockedReasons = []string{
	ReasonUndecodable, ReasonFailed, ReasonTemplateRefused, ReasonNoTemplate, ReasonNoRequest, ReasonQuorumUnknown, ReasonQuorum, ReasonLease,
	ReasonBackoff,
	ReasonLimited, ReasonBudget, ReasonOlderCheck, ReasonNoController, ReasonAuthority, ReasonMachinePaused, ReasonSkipped,
}

// severityOf returns the severity of a reason of Blocked. Those from ReasonLimited on are intended.
func severityOf(reason string) machinev1beta1.ConditionSeverity {
	if slices.Index(BlockedReasons, reason) >= slices.Index(BlockedReasons, ReasonLimited) {
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
	return status.ConditionsOn("MachineHealthCheck", []status.ConditionDoc{
		{Type: allowed, Reason: ReasonTooMany, When: "more Machines than maxUnhealthy are not healthy; True has no reason"},
		{Type: allowed, Reason: ReasonInvalidLimit, When: "maxUnhealthy is invalid"},
		{Type: allowed, Reason: ReasonInvalidLimits,
			When: "the annotation " + MaxInFlightAnnotation + " or " + IntervalAnnotation + " is invalid"},
		{Type: allowed, Reason: ReasonInvalidSelector, When: "the selector is invalid; no Machine is checked"},
		{Type: template, Reason: ReasonNoTemplate, When: "the remediation template cannot be read; Drover tries again every minute"},
		{Type: template, Reason: ReasonTemplateRefused, When: "Drover creates and deletes no remediation requests of this kind: machines.remediation." +
			"templateKinds does not name it, it is not namespaced, or it is one of Kubernetes, OpenShift, the Cluster API or Drover"},
		{Type: request, Reason: ReasonNoRequest,
			When: "a remediation request cannot be created or deleted, or its kind cannot be listed; Drover tries again every minute"},
		{Type: progressing, Reason: ReasonNothing, When: "True: no Machine needs remediation"},
		{Type: progressing, Reason: ReasonRemediating, When: "True: Machines are being remediated, one after another, or externally"},
		{Type: progressing, Reason: ReasonTooMany, When: "Machines need remediation, and RemediationAllowed is False"},
		{Type: progressing, Reason: ReasonFailed,
			When: "the API server denies the deletion or the annotation of a Machine, cannot list remediation requests that a limit or a budget counts, " +
				"or does not answer; Drover tries again"},
		{Type: progressing, Reason: ReasonNoTemplate, When: "a Machine waits for the remediation template"},
		{Type: progressing, Reason: ReasonTemplateRefused, When: "a Machine needs remediation, and the kind of the remediation template is not allowed"},
		{Type: progressing, Reason: ReasonNoRequest,
			When: "the remediation request of a Machine cannot be created; also where one of the Machine's name exists that was not created for it"},
		{Type: progressing, Reason: ReasonQuorum, When: "the control plane cannot spare the node now"},
		{Type: progressing, Reason: ReasonQuorumUnknown,
			When: "the API server does not let Drover find out whether the control plane can spare the node; the message says which permission is missing"},
		{Type: progressing, Reason: ReasonLease, When: "another controller works on the node and has its lease; the message names the holder"},
		{Type: progressing, Reason: ReasonBackoff,
			When: "replacements of the owner's Machines fail, too; the message says until when the next remediation is delayed"},
		{Type: progressing, Reason: ReasonLimited,
			When: "as many remediations are in flight as may be, or the last one started too short a time ago; the message has the numbers"},
		{Type: progressing, Reason: ReasonBudget,
			When: "the budget of the NodeGroup of the node, or of the one that the Machine was to have, has no place, a window that does not exempt " +
				"Remediation is closed, or spec.suspend is set; the message says why"},
		{Type: progressing, Reason: ReasonOlderCheck, When: "an older MachineHealthCheck selects the Machine, too, and remediates it"},
		{Type: progressing, Reason: ReasonNoController, When: "the Machine has no controller that would replace it, so it is not deleted"},
		{Type: progressing, Reason: ReasonAuthority, When: "another API has the authority over the Machine"},
		{Type: progressing, Reason: ReasonUndecodable, When: "a field of the Machine has a value that cannot be decoded; the message names it"},
		{Type: progressing, Reason: ReasonMachinePaused, When: "an annotation pauses the Machine"},
		{Type: progressing, Reason: ReasonSkipped, When: "an annotation excludes the Machine from remediation"},
		{Type: string(ConditionExclusive), Reason: ReasonExclusive, When: "True: no other MachineHealthCheck selects one of these Machines"},
		{Type: string(ConditionExclusive), Reason: ReasonOverlap, When: "another one does; the message says which of the two remediates them"},
		{Type: string(ConditionPaused), Reason: ReasonPaused,
			When: "True: an annotation pauses the MachineHealthCheck; otherwise the condition is absent"},
	})
}

// FindCondition returns a condition of a list; the zero value for none.
func FindCondition(conditions []machinev1beta1.Condition, kind machinev1beta1.ConditionType) machinev1beta1.Condition {
	if found := status.MachineCondition(conditions, kind); found != nil {
		return *found
	}
	return machinev1beta1.Condition{}
}
