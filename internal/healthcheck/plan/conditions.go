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
	// ReasonTooMany (RemediationAllowed): more Machines than maxUnhealthy are not healthy; True has no reason.
	//
	// ReasonTooMany (RemediationProgressing): Machines need remediation, and RemediationAllowed is False.
	ReasonTooMany = machinev1beta1.TooManyUnhealthyReason
	// ReasonInvalidLimit (RemediationAllowed): maxUnhealthy is invalid.
	ReasonInvalidLimit = "InvalidMaxUnhealthy"
	// ReasonInvalidLimits (RemediationAllowed): the annotation drover.dev/max-remediations-in-flight or drover.dev/remediation-interval is invalid.
	ReasonInvalidLimits = "InvalidRemediationLimits"
	// ReasonInvalidSelector (RemediationAllowed): the selector is invalid; no Machine is checked.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonNoTemplate (ExternalRemediationTemplateAvailable): the remediation template cannot be read; Drover tries again every minute.
	//
	// ReasonNoTemplate (RemediationProgressing): a Machine waits for the remediation template.
	ReasonNoTemplate = machinev1beta1.ExternalRemediationTemplateNotFound
	// ReasonTemplateRefused (ExternalRemediationTemplateAvailable): Drover creates and deletes no remediation requests of this kind:
	// machines.remediation.templateKinds does not name it, it is not namespaced, or it is one of Kubernetes, OpenShift, the Cluster API or Drover.
	//
	// ReasonTemplateRefused (RemediationProgressing): a Machine needs remediation, and the kind of the remediation template is not allowed.
	ReasonTemplateRefused = "RemediationTemplateRefused"
	// ReasonNoRequest (ExternalRemediationRequestAvailable): a remediation request cannot be created or deleted, or its kind cannot be listed; Drover
	// tries again every minute.
	//
	// ReasonNoRequest (RemediationProgressing): the remediation request of a Machine cannot be created; also where one of the Machine's name exists
	// that was not created for it.
	ReasonNoRequest = machinev1beta1.ExternalRemediationRequestCreationFailed
	// ReasonNothing (RemediationProgressing=True): no Machine needs remediation.
	ReasonNothing = "NothingToRemediate"
	// ReasonRemediating (RemediationProgressing=True): Machines are being remediated, one after another, or externally.
	ReasonRemediating = "Remediating"
	// ReasonFailed (RemediationProgressing): the API server denies the deletion or the annotation of a Machine, cannot list remediation requests that a
	// limit or a budget counts, or does not answer; Drover tries again.
	ReasonFailed = "RemediationFailed"
	// ReasonQuorum (RemediationProgressing): the control plane cannot spare the node now.
	ReasonQuorum = "ControlPlaneQuorum"
	// ReasonQuorumUnknown (RemediationProgressing): the API server does not let Drover find out whether the control plane can spare the node; the
	// message says which permission is missing.
	ReasonQuorumUnknown = "ControlPlaneQuorumUnknown"
	// ReasonLease (RemediationProgressing): another controller works on the node and has its lease; the message names the holder.
	ReasonLease = "LeaseHeldByOther"
	// ReasonBackoff (RemediationProgressing): replacements of the owner's Machines fail, too; the message says until when the next remediation is
	// delayed.
	ReasonBackoff = "BackingOff"
	// ReasonLimited (RemediationProgressing): as many remediations are in flight as may be, or the last one started too short a time ago; the message
	// has the numbers.
	ReasonLimited = "RemediationLimited"
	// ReasonBudget (RemediationProgressing): the budget of the NodeGroup of the node, or of the one that the Machine was to have, has no place, a
	// window that does not exempt Remediation is closed, or spec.suspend is set; the message says why.
	ReasonBudget = "WaitingForBudget"
	// ReasonOlderCheck (RemediationProgressing): an older MachineHealthCheck selects the Machine, too, and remediates it.
	ReasonOlderCheck = "LeftToOlder"
	// ReasonNoController (RemediationProgressing): the Machine has no controller that would replace it, so it is not deleted.
	ReasonNoController = "NoController"
	// ReasonAuthority (RemediationProgressing): another API has the authority over the Machine.
	ReasonAuthority = "AuthoritativeAPINotMachineAPI"
	// ReasonUndecodable (RemediationProgressing): a field of the Machine has a value that cannot be decoded; the message names it.
	ReasonUndecodable = "Undecodable"
	// ReasonMachinePaused (RemediationProgressing): an annotation pauses the Machine.
	ReasonMachinePaused = "MachinePaused"
	// ReasonSkipped (RemediationProgressing): an annotation excludes the Machine from remediation.
	ReasonSkipped = "SkippedByAnnotation"
	// ReasonExclusive (SelectorExclusive=True): no other MachineHealthCheck selects one of these Machines.
	ReasonExclusive = "NoOverlap"
	// ReasonOverlap (SelectorExclusive): another MachineHealthCheck selects one of these Machines; the message says which of the two remediates them.
	ReasonOverlap = "Overlapping"
	// ReasonPaused (Paused=True): an annotation pauses the MachineHealthCheck; otherwise the condition is absent.
	ReasonPaused = "PausedByAnnotation"
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

// FindCondition returns a condition of a list; the zero value for none.
func FindCondition(conditions []machinev1beta1.Condition, kind machinev1beta1.ConditionType) machinev1beta1.Condition {
	if found := status.MachineCondition(conditions, kind); found != nil {
		return *found
	}
	return machinev1beta1.Condition{}
}
