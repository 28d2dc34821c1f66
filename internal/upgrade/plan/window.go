package plan

import (
	"fmt"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/schedule"
)

// resolveWait determines why no node may be started.
func (r *Run) resolveWait() {
	state, err := schedule.Decide(windowsOf(r.Config), nil, r.Now)
	if err != nil {
		r.problem("spec.%v", err)
		return
	}
	r.wakeAt(state.Changes)
	switch {
	case !r.Completed:
		r.Wait = "the control plane does not have version " + r.Desired + " yet"
	case r.Canary != nil && r.Canary.Spec.Paused:
		r.Wait = "the canary MachineConfigPool " + r.Canary.Name + " is paused"
	case !state.Open:
		r.Wait = "no maintenance window is open"
		if !state.Changes.IsZero() {
			r.Wait += "; the next one opens at " + state.Changes.Format("2006-01-02T15:04Z")
		}
	}
}

// CalendarOf returns the maintenance windows of a run.
func CalendarOf(run *v1alpha1.MutexRunConfig) (*schedule.Calendar, error) {
	calendar, err := schedule.Parse(windowsOf(run), nil)
	if err != nil {
		return nil, fmt.Errorf("spec.%w", err)
	}
	return calendar, nil
}

// windowsOf returns the maintenance windows of a run.
func windowsOf(run *v1alpha1.MutexRunConfig) []schedule.Window {
	windows := make([]schedule.Window, 0, len(run.Spec.Windows))
	for i := range run.Spec.Windows {
		w := &run.Spec.Windows[i]
		windows = append(windows, schedule.Window{Schedule: w.Schedule, TimeZone: w.TimeZone, Duration: w.Duration.Duration})
	}
	return windows
}
