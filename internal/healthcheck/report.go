package healthcheck

import (
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/paused"
)

// remindEvery is how far apart two events are that tell of the same restriction. The incumbent sends one with every pass.
const remindEvery = 5 * time.Minute

// noteFindings sends an event for each Machine that is found unhealthy for the first time. A start that takes its time is no such thing.
func (p *pass) noteFindings() {
	for i, v := range p.decision.verdicts {
		machine := p.in.targets[i].machine
		bad := v.finding == foundSuspect || v.finding.due()
		if !bad && p.memory.machines[machine.UID] == nil {
			continue
		}
		seen := p.memory.of(machine.UID)
		switch {
		case !v.finding.due():
			seen.due = time.Time{}
		case seen.due.IsZero():
			seen.due = p.now
		}
		if bad && !seen.bad && !p.stale(&v) {
			text := v.text
			if v.finding == foundSuspect {
				text += ", and it is remediated when that lasts"
			}
			p.recorder.Eventf(machine, corev1.EventTypeNormal, EventDetected, "MachineHealthCheck %s finds it unhealthy: %s", p.key.Name, text)
		}
		seen.bad = bad
	}
}

// stale tells whether a finding is from before the process, which has been told of by the one before.
func (p *pass) stale(v *verdict) bool {
	return !p.memory.told && p.check.CreationTimestamp.Time.Before(p.began.Truncate(time.Second)) && v.since.Before(p.began)
}

// noteObstacles sends an event for each Machine that something new keeps from being remediated, and shows the numbers.
func (p *pass) noteObstacles() {
	// What the status says already has been told by the process before.
	quiet := !p.memory.told && findState(p.check.Status.Conditions, ConditionProgressing) == p.progressState()
	waiting, standing := map[string]int{}, map[*sighting]bool{}
	obstacles := p.obstacles()
	for i := range obstacles {
		o := &obstacles[i]
		waiting[o.reason]++
		seen := p.memory.of(o.machine.UID)
		if what := o.reason + " " + o.event; seen.obstacle != what {
			seen.obstacle = what
			if !quiet {
				p.tellObstacle(o)
			}
		}
		standing[seen] = true
	}
	for _, seen := range p.memory.machines {
		if !standing[seen] {
			seen.obstacle = ""
		}
	}
	p.memory.told = true
	p.metrics.wait(p.key, p.memory.waiting, waiting)
	p.memory.waiting = waiting
	p.metrics.observe(p.key, p.decision.expected, p.allowedState().reason != "")
}

// tell sends the events for what the status now says.
func (p *pass) tell(before, after *machinev1beta1.MachineHealthCheckStatus) {
	p.tellRestriction(before, after)
	overlap := findState(after.Conditions, ConditionExclusive)
	if overlap.reason == reasonOverlap && findState(before.Conditions, ConditionExclusive) != overlap {
		p.recorder.Event(p.check, corev1.EventTypeWarning, EventOverlap, overlap.message)
	}
}

// tellRestriction tells when remediation is not allowed any more, and again while that lasts, at most every few minutes.
func (p *pass) tellRestriction(before, after *machinev1beta1.MachineHealthCheckStatus) {
	was := findState(before.Conditions, machinev1beta1.RemediationAllowedCondition)
	is := findState(after.Conditions, machinev1beta1.RemediationAllowedCondition)
	switch {
	case paused.By(p.check) != "":
		return
	case is.status != corev1.ConditionFalse:
		p.memory.restricted = time.Time{}
		return
	case was.status != corev1.ConditionFalse:
	case p.memory.restricted.IsZero():
		// The process before has told it.
		p.memory.restricted = p.now
		return
	case p.now.Sub(p.memory.restricted) < remindEvery:
		return
	}
	p.memory.restricted = p.now
	p.recorder.Event(p.check, corev1.EventTypeWarning, EventRestricted, is.message)
}
