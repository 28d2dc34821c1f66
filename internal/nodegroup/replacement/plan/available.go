package plan

import (
	"fmt"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// defaultDeadline is how long a new Machine may take to become available.
const defaultDeadline = 30 * time.Minute

// isAvailable reports whether a new Machine may take the place of an old one: its Node carries its metadata and has been Ready for minReadySeconds.
func (d *decider) isAvailable(m *Machine) bool {
	if !m.Ready || !m.Synced {
		return false
	}
	at := d.readyChange(m).Add(bounded.Seconds(d.settings.MinReadySeconds))
	if at.After(d.Now) {
		d.wake(at)
		return false
	}
	return true
}

// readyChange returns when the Node of a Machine became Ready or NotReady, the zero time if the kubelet's clock is wrong: it must not hold the others
// until the time that it says.
func (d *decider) readyChange(m *Machine) time.Time {
	if !bounded.IsPossible(m.ReadyChange, d.Now) {
		return time.Time{}
	}
	return m.ReadyChange
}

// isStopped reports whether no further Machine is replaced, because a Machine of the current template has failed or is late. A Machine that has
// worked before is late, too, if its Node has not been Ready for the deadline.
func (d *decider) isStopped() bool {
	for _, set := range d.sets {
		for i := range set.Machines {
			m := &set.Machines[i]
			if m.Outdated || m.Deleting || m.Skipped || set.Paused {
				continue
			}
			if why := d.failure(set, m); why != "" {
				d.decision.Report.block(ReasonNewMachineFailed, why)
				return true
			}
		}
	}
	return false
}

// failure returns why a new Machine stops the replacement; empty if it does not.
func (d *decider) failure(set *tally, m *Machine) string {
	if m.Failed {
		return fmt.Sprintf("Machine %s, which MachineSet %s created from its current template, has failed; the replacement goes on when the template "+
			"changes, or when a user resumes it with the annotation %s, which replaces the Machine", m.Name, set.Name, v1alpha1.AnnotationResume)
	}
	if m.Ready && m.Synced {
		return ""
	}
	since := m.Created
	for _, later := range []time.Time{d.readyChange(m), d.resumed} {
		if later.After(since) {
			since = later
		}
	}
	deadline := defaultDeadline
	if d.settings.ProgressDeadline != nil {
		deadline = d.settings.ProgressDeadline.Duration
	}
	if at := since.Add(deadline); at.After(d.Now) {
		d.wake(at)
		return ""
	}
	what := "has no Ready Node"
	if m.Ready {
		what = "has a Node without its metadata"
	}
	return fmt.Sprintf("Machine %s, which MachineSet %s created from its current template, %s after %s; the replacement goes on when it is available "+
		"or deleted, when the template changes, or when a user gives it more time with the annotation %s", m.Name, set.Name, what, deadline,
		v1alpha1.AnnotationResume)
}
