package plan

import (
	"fmt"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/schedule"
)

// WindowOf returns whether disruptions of a group may begin at a time. A window that cannot be read is closed.
func WindowOf(group *v1alpha1.NodeGroup, now time.Time) disruptionplan.Window {
	if !hasWindows(group) {
		return disruptionplan.Window{}
	}
	state, err := decideWindow(group.Spec.Disruption, now)
	if err != nil {
		return disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonWindowClosed, Message: err.Error()}
	}
	return describeWindow(&state)
}

// invalidWindow returns why a window or a freeze of a group cannot be read; nil if all can.
func (in *Input) invalidWindow() error {
	if !hasWindows(in.Group) {
		return nil
	}
	_, err := decideWindow(in.Group.Spec.Disruption, in.Now)
	return err
}

func decideWindow(spec *v1alpha1.Disruption, now time.Time) (schedule.State, error) {
	calendar, err := CalendarOf(spec)
	if err != nil {
		return schedule.State{}, err
	}
	return calendar.At(now), nil
}

// CalendarOf returns the windows and freezes of a group.
func CalendarOf(spec *v1alpha1.Disruption) (*schedule.Calendar, error) {
	windows, freezes := make([]schedule.Window, len(spec.Windows)), make([]schedule.Freeze, len(spec.Freezes))
	for i := range spec.Windows {
		w := &spec.Windows[i]
		windows[i] = schedule.Window{Schedule: w.Schedule, TimeZone: w.TimeZone, Duration: w.Duration.Duration}
		if w.MinRemaining != nil {
			windows[i].MinRemaining = w.MinRemaining.Duration
		}
	}
	for i := range spec.Freezes {
		f := &spec.Freezes[i]
		freezes[i] = schedule.Freeze{From: f.From.Time, To: f.To.Time, Reason: f.Reason}
	}
	calendar, err := schedule.Parse(windows, freezes)
	if err != nil {
		return nil, fmt.Errorf("spec.disruption: %w", err)
	}
	return calendar, nil
}

// hasWindows reports whether disruptions of a group may not begin at any time.
func hasWindows(group *v1alpha1.NodeGroup) bool {
	spec := group.Spec.Disruption
	return spec != nil && len(spec.Windows)+len(spec.Freezes) > 0
}

func describeWindow(state *schedule.State) disruptionplan.Window {
	window := disruptionplan.Window{Closed: !state.Open, Changes: state.Changes}
	until := "; it does not open again"
	if !state.Changes.IsZero() {
		until = " until " + state.Changes.UTC().Format(time.RFC3339)
	}
	switch {
	case state.Open:
	case state.Freeze != nil:
		window.Reason, window.Message = disruptionplan.ReasonFrozen, "no disruption begins until "+state.Freeze.To.UTC().Format(time.RFC3339)
		if state.Freeze.Reason != "" {
			window.Message += ": " + state.Freeze.Reason
		}
	case state.Ending:
		window.Reason = disruptionplan.ReasonWindowClosed
		window.Message = "less than minRemaining is left of the window, which is closed for what has not begun" + until
	default:
		window.Reason, window.Message = disruptionplan.ReasonWindowClosed, "no window is open"+until
	}
	return window
}
