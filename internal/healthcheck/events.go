package healthcheck

import (
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/paused"
)

// Reasons of the events. The first seven are machine-api-operator's.
const (
	// EventRestricted (Warning on MachineHealthCheck): remediation is not allowed any more, because too many Machines are not healthy, or maxUnhealthy,
	// the selector or an annotation with a limit is invalid; repeated at most every five minutes.
	EventRestricted = "RemediationRestricted"
	// EventDetected (Normal on Machine): the Machine needs remediation, or will when a condition of its Node lasts for the timeout; once, and not while
	// the Machine starts.
	EventDetected = "DetectedUnhealthy"
	// EventNoController (Normal on Machine): the Machine needs remediation, but has no controller that would replace it.
	EventNoController = "SkippedNoController"
	// EventDeleted (Normal on Machine): the Machine has been deleted, so that its owner creates a new one.
	EventDeleted = "MachineDeleted"
	// EventDeletionFailed (Warning on Machine): the deletion was denied or failed; Drover tries again.
	EventDeletionFailed = "MachineDeletionFailed"
	// EventAnnotationAdded (Normal on Machine): the Machine has been annotated for the bare metal operator to remediate it.
	EventAnnotationAdded = "ExternalAnnotationAdded"
	// EventAnnotationFailed (Warning on Machine): the annotation was denied or failed; Drover tries again.
	EventAnnotationFailed = "ExternalAnnotationFailed"
	// EventRequested (Normal on Machine): a remediation request has been created for the Machine from the template.
	EventRequested = "ExternalRemediationRequested"
	// EventRequestFailed (Warning on Machine): the remediation request cannot be created; Drover tries again.
	EventRequestFailed = "ExternalRemediationRequestFailed"
	// EventDeferred (Warning on Machine): the remediation has to wait: for the node's lease, for the control plane, because replacements keep failing,
	// because of a limit of remediations, or for the budget of its NodeGroup.
	EventDeferred = "RemediationDeferred"
	// EventOverlap (Warning on MachineHealthCheck): another MachineHealthCheck selects one of the same Machines.
	EventOverlap = "SelectorOverlap"
)

// blockedEvents are the events for the reasons of plan.Blocked. What is intended is only in the condition.
var blockedEvents = map[string]string{
	plan.ReasonNoController:    EventNoController,
	plan.ReasonNoTemplate:      EventRequestFailed,
	plan.ReasonTemplateRefused: EventRequestFailed,
	plan.ReasonNoRequest:       EventRequestFailed,
	plan.ReasonQuorum:          EventDeferred,
	plan.ReasonQuorumUnknown:   EventDeferred,
	plan.ReasonLease:           EventDeferred,
	plan.ReasonBackoff:         EventDeferred,
	plan.ReasonLimited:         EventDeferred,
	plan.ReasonBudget:          EventDeferred,
}

// restrictedInterval is the shortest time between two events for the same restriction. machine-api-operator emits one with every reconciliation.
const restrictedInterval = 5 * time.Minute

// reportUnhealthy emits an event for each Machine that becomes unhealthy.
func (rc *reconciliation) reportUnhealthy(current *snapshot) {
	for i := range current.decision.Assessments {
		a, machine := &current.decision.Assessments[i], current.input.Targets[i].Machine
		unhealthy := a.Health == plan.Degraded || a.Health.NeedsRemediation()
		if !unhealthy && rc.state.machines[machine.UID] == nil {
			continue
		}
		known := rc.state.machine(machine.UID)
		switch {
		case !a.Health.NeedsRemediation():
			known.due = time.Time{}
		case known.due.IsZero():
			known.due = rc.now
		}
		if unhealthy && !known.unhealthy && !rc.wasReported(a) {
			message := a.Message
			if a.Health == plan.Degraded {
				message += "; it is remediated if that lasts for the timeout"
			}
			rc.recorder.Eventf(machine, corev1.EventTypeNormal, EventDetected, "MachineHealthCheck %s has detected that the Machine is unhealthy: %s",
				rc.key.Name, message)
		}
		known.unhealthy = unhealthy
	}
}

// wasReported reports whether a Machine became unhealthy before the controller started, so that its predecessor has reported it.
func (rc *reconciliation) wasReported(a *plan.Assessment) bool {
	return !rc.state.reported && rc.check.CreationTimestamp.Time.Before(rc.startTime.Truncate(time.Second)) && a.Since.Before(rc.startTime)
}

// reportBlocked emits an event for each Machine that is blocked for a new reason, and returns how many are, by reason.
func (rc *reconciliation) reportBlocked(all []plan.Blocked, after *machinev1beta1.MachineHealthCheckStatus) map[string]int {
	// What the status says already has been reported by the predecessor.
	silent := !rc.state.reported &&
		plan.FindCondition(rc.check.Status.Conditions, plan.ConditionProgressing) == plan.FindCondition(after.Conditions, plan.ConditionProgressing)
	waiting, current := map[string]int{}, map[*machineState]bool{}
	for i := range all {
		b := &all[i]
		waiting[b.Reason]++
		known := rc.state.machine(b.Machine.UID)
		if reason := b.Reason + " " + b.Event; known.blocked != reason {
			known.blocked = reason
			if !silent {
				rc.emitBlocked(b)
			}
		}
		current[known] = true
	}
	for _, known := range rc.state.machines {
		if !current[known] {
			known.blocked = ""
		}
	}
	return waiting
}

func (rc *reconciliation) emitBlocked(b *plan.Blocked) {
	reason, kind := blockedEvents[b.Reason], corev1.EventTypeWarning
	if b.Event != "" {
		reason = b.Event
	}
	switch reason {
	case "":
		return
	case EventNoController:
		kind = corev1.EventTypeNormal
	}
	rc.recorder.Eventf(b.Machine, kind, reason, "MachineHealthCheck %s: %s", rc.key.Name, b.Message)
}

// reportRestriction emits an event when remediation is not allowed any more, and repeats it while that lasts.
func (rc *reconciliation) reportRestriction(after *machinev1beta1.MachineHealthCheckStatus) {
	was := plan.FindCondition(rc.check.Status.Conditions, machinev1beta1.RemediationAllowedCondition)
	is := plan.FindCondition(after.Conditions, machinev1beta1.RemediationAllowedCondition)
	switch {
	case paused.By(rc.check) != "":
		return
	case is.Status != corev1.ConditionFalse:
		rc.state.restricted = time.Time{}
		return
	case was.Status != corev1.ConditionFalse:
	case rc.state.restricted.IsZero():
		// The predecessor has reported it.
		rc.state.restricted = rc.now
		return
	case rc.now.Sub(rc.state.restricted) < restrictedInterval:
		return
	}
	rc.state.restricted = rc.now
	rc.recorder.Event(rc.check, corev1.EventTypeWarning, EventRestricted, is.Message)
}

// reportOverlap emits an event when the overlap with other MachineHealthChecks changes.
func (rc *reconciliation) reportOverlap(after *machinev1beta1.MachineHealthCheckStatus) {
	overlap := plan.FindCondition(after.Conditions, plan.ConditionExclusive)
	if overlap.Reason == plan.ReasonOverlap && plan.FindCondition(rc.check.Status.Conditions, plan.ConditionExclusive) != overlap {
		rc.recorder.Event(rc.check, corev1.EventTypeWarning, EventOverlap, overlap.Message)
	}
}
