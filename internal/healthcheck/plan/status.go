package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// maxNamed is how many Machines a condition names.
const maxNamed = 5

// Progress is how far a decision has been carried out.
type Progress struct {
	// Blocked are the Machines whose remediation was to start and could not.
	Blocked []Blocked
	// Requested reports that an external remediation has been requested.
	Requested bool
	// Remaining reports that remediations have not been tried yet.
	Remaining bool
	// TemplateRead reports that the remediation template has been read, and TemplateFailure is why it cannot be.
	TemplateRead    bool
	TemplateFailure TemplateFailure
	// RequestsListed reports that the remediation requests have been listed, and RequestFailure is why one of them cannot be created or
	// deleted, or why they cannot be listed.
	RequestsListed bool
	RequestFailure string
}

// Status returns the status of a MachineHealthCheck. It is the same for the same decision, so that nothing is written at rest.
func Status(in *Input, d *Decision, progress *Progress) machinev1beta1.MachineHealthCheckStatus {
	after := *in.Check.Status.DeepCopy()
	after.ExpectedMachines, after.CurrentHealthy = &d.Expected, &d.Healthy
	after.RemediationsAllowed = bounded.Int32(d.RemediationsAllowed())
	allowed := d.allowedCondition(in.Check)
	for kind, condition := range map[machinev1beta1.ConditionType]*machinev1beta1.Condition{
		machinev1beta1.RemediationAllowedCondition:          allowed,
		machinev1beta1.ExternalRemediationTemplateAvailable: progress.templateCondition(in.Check),
		machinev1beta1.ExternalRemediationRequestAvailable:  progress.requestCondition(in, d),
		ConditionProgressing:                                d.progressCondition(allowed, progress),
		ConditionExclusive:                                  d.exclusiveCondition(),
		ConditionPaused:                                     {},
	} {
		if condition != nil {
			condition.Type = kind
			status.SetMachineCondition(&after.Conditions, *condition, in.Now)
		}
	}
	return after
}

// PausedStatus returns the status of a MachineHealthCheck that is paused: the rest of it stays as it is.
func PausedStatus(check *machinev1beta1.MachineHealthCheck, now time.Time) machinev1beta1.MachineHealthCheckStatus {
	after := *check.Status.DeepCopy()
	condition := status.MachineConditionTrue(ReasonPaused, "it has the annotation "+paused.By(check))
	condition.Type = ConditionPaused
	status.SetMachineCondition(&after.Conditions, condition, now)
	return after
}

// allowedCondition returns RemediationAllowed. The message of ReasonTooMany is machine-api-operator's.
func (d *Decision) allowedCondition(check *machinev1beta1.MachineHealthCheck) *machinev1beta1.Condition {
	switch {
	case d.SelectorError != nil:
		return new(status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalidSelector, d.SelectorError.Error()))
	case d.LimitError != nil:
		return new(status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalidLimit, d.LimitError.Error()))
	case d.LimitsError != nil:
		return new(status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalidLimits, d.LimitsError.Error()))
	case !d.Allowed:
		return new(status.MachineConditionFalse(machinev1beta1.ConditionSeverityWarning, ReasonTooMany, fmt.Sprintf(
			"Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy "+
				"(total: %d, unhealthy: %d, maxUnhealthy: %s)", d.Expected, d.Unhealthy, limitText(check.Spec.MaxUnhealthy))))
	}
	return new(status.MachineConditionTrue("", ""))
}

// progressCondition returns RemediationProgressing.
func (d *Decision) progressCondition(allowed *machinev1beta1.Condition, progress *Progress) *machinev1beta1.Condition {
	blocked := AllBlocked(d, progress)
	switch {
	case !d.Allowed && d.NeedsRemediation():
		return new(status.MachineConditionFalse(allowed.Severity, allowed.Reason, "Machines wait until remediation is allowed"))
	case len(blocked) > 0:
		return new(status.MachineConditionFalse(severityOf(blocked[0].Reason), blocked[0].Reason, blockedMessage(blocked)))
	case d.External > 0 || progress.Requested || progress.Remaining:
		return new(status.MachineConditionTrue(ReasonRemediating, ""))
	}
	return new(status.MachineConditionTrue(ReasonNothing, ""))
}

// AllBlocked returns the Machines that the decision or its execution found blocked, in the order of BlockedReasons.
func AllBlocked(d *Decision, progress *Progress) []Blocked {
	all := slices.Concat(d.Blocked, progress.Blocked)
	slices.SortStableFunc(all, func(a, b Blocked) int {
		if order := slices.Index(BlockedReasons, a.Reason) - slices.Index(BlockedReasons, b.Reason); order != 0 {
			return order
		}
		return strings.Compare(a.Machine.Name, b.Machine.Name)
	})
	return all
}

func blockedMessage(blocked []Blocked) string {
	var texts []string
	for i := range blocked[:min(len(blocked), maxNamed)] {
		texts = append(texts, fmt.Sprintf("Machine %s: %s", blocked[i].Machine.Name, blocked[i].Message))
	}
	if more := len(blocked) - maxNamed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// exclusiveCondition returns SelectorExclusive. It names no Machines: they change too often.
func (d *Decision) exclusiveCondition() *machinev1beta1.Condition {
	if len(d.Overlaps) == 0 {
		return new(status.MachineConditionTrue(ReasonExclusive, ""))
	}
	var texts []string
	for _, other := range d.Overlaps {
		if other.Older {
			texts = append(texts, other.Name+", which is older and remediates them")
		} else {
			texts = append(texts, other.Name+", which is younger and does not remediate them")
		}
	}
	return new(status.MachineConditionFalse(machinev1beta1.ConditionSeverityWarning, ReasonOverlap,
		"other MachineHealthChecks select some of these Machines, too: "+strings.Join(texts, "; ")))
}

// templateCondition returns ExternalRemediationTemplateAvailable; nil leaves it as it is.
func (p *Progress) templateCondition(check *machinev1beta1.MachineHealthCheck) *machinev1beta1.Condition {
	switch {
	case check.Spec.RemediationTemplate == nil:
		return &machinev1beta1.Condition{}
	case p.TemplateFailure.Reason != "":
		return new(status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, p.TemplateFailure.Reason, p.TemplateFailure.Message))
	case p.TemplateRead:
		return new(status.MachineConditionTrue("", ""))
	}
	return nil
}

// requestCondition returns ExternalRemediationRequestAvailable; nil leaves it as it is. Without a request there is no such condition.
func (p *Progress) requestCondition(in *Input, d *Decision) *machinev1beta1.Condition {
	switch {
	case in.Check.Spec.RemediationTemplate == nil:
		return &machinev1beta1.Condition{}
	case p.RequestFailure != "":
		return new(status.MachineConditionFalse(machinev1beta1.ConditionSeverityError, ReasonNoRequest, p.RequestFailure))
	case !p.RequestsListed:
		return nil
	case p.Requested:
		return new(status.MachineConditionTrue("", ""))
	}
	for i := range in.Targets {
		if d.Assessments[i].Health.NeedsRemediation() && in.Targets[i].Requested {
			return new(status.MachineConditionTrue("", ""))
		}
	}
	return &machinev1beta1.Condition{}
}
