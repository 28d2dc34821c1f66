package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/paused"
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
	TemplateFailure string
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
	for kind, condition := range map[machinev1beta1.ConditionType]*Condition{
		machinev1beta1.RemediationAllowedCondition:          allowed,
		machinev1beta1.ExternalRemediationTemplateAvailable: progress.templateCondition(in.Check),
		machinev1beta1.ExternalRemediationRequestAvailable:  progress.requestCondition(in, d),
		ConditionProgressing:                                d.progressCondition(allowed, progress),
		ConditionExclusive:                                  d.exclusiveCondition(),
		ConditionPaused:                                     {},
	} {
		if condition != nil {
			after.Conditions = setCondition(after.Conditions, kind, *condition, in.Now)
		}
	}
	return after
}

// PausedStatus returns the status of a MachineHealthCheck that is paused: the rest of it stays as it is.
func PausedStatus(check *machinev1beta1.MachineHealthCheck, now time.Time) machinev1beta1.MachineHealthCheckStatus {
	after := *check.Status.DeepCopy()
	condition := conditionTrue(ReasonPaused, "it has the annotation "+paused.By(check))
	after.Conditions = setCondition(after.Conditions, ConditionPaused, *condition, now)
	return after
}

// allowedCondition returns RemediationAllowed. The message of ReasonTooMany is machine-api-operator's.
func (d *Decision) allowedCondition(check *machinev1beta1.MachineHealthCheck) *Condition {
	switch {
	case d.SelectorError != nil:
		return conditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalidSelector, d.SelectorError.Error())
	case d.LimitError != nil:
		return conditionFalse(machinev1beta1.ConditionSeverityError, ReasonInvalidLimit, d.LimitError.Error())
	case !d.Allowed:
		return conditionFalse(machinev1beta1.ConditionSeverityWarning, ReasonTooMany, fmt.Sprintf(
			"Remediation is not allowed, the number of not started or unhealthy machines exceeds maxUnhealthy "+
				"(total: %d, unhealthy: %d, maxUnhealthy: %s)", d.Expected, d.Unhealthy, limitText(check.Spec.MaxUnhealthy)))
	}
	return conditionTrue("", "")
}

// progressCondition returns RemediationProgressing.
func (d *Decision) progressCondition(allowed *Condition, progress *Progress) *Condition {
	blocked := AllBlocked(d, progress)
	switch {
	case !d.Allowed && d.NeedsRemediation():
		return conditionFalse(allowed.Severity, allowed.Reason, "Machines wait until remediation is allowed")
	case len(blocked) > 0:
		return conditionFalse(severityOf(blocked[0].Reason), blocked[0].Reason, blockedMessage(blocked))
	case d.External > 0 || progress.Requested || progress.Remaining:
		return conditionTrue(ReasonRemediating, "")
	}
	return conditionTrue(ReasonNothing, "")
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
func (d *Decision) exclusiveCondition() *Condition {
	if len(d.Overlaps) == 0 {
		return conditionTrue(ReasonExclusive, "")
	}
	var texts []string
	for _, other := range d.Overlaps {
		if other.Older {
			texts = append(texts, other.Name+", which is older and remediates them")
		} else {
			texts = append(texts, other.Name+", which is younger and does not remediate them")
		}
	}
	return conditionFalse(machinev1beta1.ConditionSeverityWarning, ReasonOverlap,
		"other MachineHealthChecks select some of these Machines, too: "+strings.Join(texts, "; "))
}

// templateCondition returns ExternalRemediationTemplateAvailable; nil leaves it as it is.
func (p *Progress) templateCondition(check *machinev1beta1.MachineHealthCheck) *Condition {
	switch {
	case check.Spec.RemediationTemplate == nil:
		return &Condition{}
	case p.TemplateFailure != "":
		return conditionFalse(machinev1beta1.ConditionSeverityError, ReasonNoTemplate, p.TemplateFailure)
	case p.TemplateRead:
		return conditionTrue("", "")
	}
	return nil
}

// requestCondition returns ExternalRemediationRequestAvailable; nil leaves it as it is. Without a request there is no such condition.
func (p *Progress) requestCondition(in *Input, d *Decision) *Condition {
	switch {
	case in.Check.Spec.RemediationTemplate == nil:
		return &Condition{}
	case p.RequestFailure != "":
		return conditionFalse(machinev1beta1.ConditionSeverityError, ReasonNoRequest, p.RequestFailure)
	case !p.RequestsListed:
		return nil
	case p.Requested:
		return conditionTrue("", "")
	}
	for i := range in.Targets {
		if d.Assessments[i].Health.NeedsRemediation() && in.Targets[i].Requested {
			return conditionTrue("", "")
		}
	}
	return &Condition{}
}
