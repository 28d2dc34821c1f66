package plan

import (
	"fmt"
	"time"

	"github.com/drover-io/drover/internal/bounded"
)

// defaultDeadline is how long a new Machine may take to become available.
const defaultDeadline = 30 * time.Minute

// isAvailable reports whether a new Machine may take the place of an old one: its Node carries its metadata and has been Ready for minReadySeconds.
func (d *decider) isAvailable(m *Machine) bool {
	if !m.Ready || !m.Synced {
		return false
	}
	at := m.ReadyChange.Add(bounded.Seconds(d.settings.MinReadySeconds))
	if at.After(d.Now) {
		d.wake(at)
		return false
	}
	return true
}

// isStopped reports whether no further Machine is replaced, because a new one has failed or is late.
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
	const goesOn = "the replacement goes on when the template changes, or a user resumes it"
	if m.Failed {
		return fmt.Sprintf("Machine %s, which MachineSet %s created from its current template, has failed; %s", m.Name, set.Name, goesOn)
	}
	if m.Ready && m.Synced {
		return ""
	}
	since := m.Created
	for _, later := range []time.Time{m.ReadyChange, d.resumed} {
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
	return fmt.Sprintf("Machine %s, which MachineSet %s created from its current template, %s after %s; %s", m.Name, set.Name, what, deadline, goesOn)
}
