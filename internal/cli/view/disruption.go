package view

import (
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/schedule"
)

// GroupDisruption is what the budget and the windows of a NodeGroup allow now.
type GroupDisruption struct {
	// MaxUnavailable is the bound as it is declared, and Limit the number of Nodes that it is, of Expected.
	MaxUnavailable string `json:"maxUnavailable"`
	Limit          int    `json:"limit"`
	Expected       int    `json:"expected"`
	// Unavailable are the Nodes that are unavailable or reserved. Those that only have a node lease are not among them.
	Unavailable int `json:"unavailable"`
	// Open reports whether disruptions may begin, Changes when that changes next, and Closed why they may not.
	Open    bool       `json:"open"`
	Changes *time.Time `json:"changes,omitempty"`
	Closed  string     `json:"closed,omitempty"`
}

// disruptionOf returns what spec.disruption of a group allows; nil without it.
func disruptionOf(in *GroupInput) *GroupDisruption {
	spec := in.Group.Spec.Disruption
	if spec == nil {
		return nil
	}
	var nodes []disruptionplan.Member
	for i := range in.Nodes {
		if assignment := &in.Nodes[i]; isMember(assignment, in.Group) {
			nodes = append(nodes, disruptionplan.MemberOf(assignment.Node, spec.UnavailableTaints))
		}
	}
	counts := disruptionplan.Count(&disruptionplan.Input{Now: in.Now, Group: in.Group.NodeGroup, Members: disruptionplan.NewMembers(nodes...)})
	out := &GroupDisruption{MaxUnavailable: "1", Limit: counts.Limit, Expected: counts.Expected, Unavailable: counts.Unavailable}
	if spec.MaxUnavailable != nil {
		out.MaxUnavailable = spec.MaxUnavailable.String()
	}
	out.setWindow(spec, in.Now)
	return out
}

func isMember(assignment *members.Assignment, group *members.Group) bool {
	return assignment.Group != nil && assignment.Group.UID == group.UID
}

// setWindow sets whether disruptions may begin.
func (d *GroupDisruption) setWindow(spec *v1alpha1.Disruption, now time.Time) {
	state, err := schedule.Decide(windowsOf(spec), freezesOf(spec), now)
	d.Open = state.Open
	if !state.Changes.IsZero() {
		d.Changes = &state.Changes
	}
	switch {
	case err != nil:
		d.Closed = err.Error()
	case state.Freeze != nil:
		d.Closed = "frozen: " + state.Freeze.Reason
	case state.Ending:
		d.Closed = "too little is left of the window"
	case !state.Open:
		d.Closed = "no window is open"
	}
}

func windowsOf(spec *v1alpha1.Disruption) []schedule.Window {
	windows := make([]schedule.Window, len(spec.Windows))
	for i := range spec.Windows {
		w := &spec.Windows[i]
		windows[i] = schedule.Window{Schedule: w.Schedule, TimeZone: w.TimeZone, Duration: w.Duration.Duration}
		if w.MinRemaining != nil {
			windows[i].MinRemaining = w.MinRemaining.Duration
		}
	}
	return windows
}

func freezesOf(spec *v1alpha1.Disruption) []schedule.Freeze {
	freezes := make([]schedule.Freeze, len(spec.Freezes))
	for i := range spec.Freezes {
		freezes[i] = schedule.Freeze{From: spec.Freezes[i].From.Time, To: spec.Freezes[i].To.Time, Reason: spec.Freezes[i].Reason}
	}
	return freezes
}
