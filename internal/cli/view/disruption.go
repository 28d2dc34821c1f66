package view

import (
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
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
	counts := disruptionplan.Count(in.disruption())
	out := &GroupDisruption{MaxUnavailable: "1", Limit: counts.Limit, Expected: counts.Expected, Unavailable: counts.Unavailable}
	if spec.MaxUnavailable != nil {
		out.MaxUnavailable = spec.MaxUnavailable.String()
	}
	out.setWindow(in.Group.NodeGroup, in.Now)
	return out
}

// disruption returns what the budget of the group decides by, as far as the plugin knows it: neither leases nor requests that wait.
func (in *GroupInput) disruption() *disruptionplan.Input {
	var nodes []disruptionplan.Member
	var taints []string
	if in.Group.Spec.Disruption != nil {
		taints = in.Group.Spec.Disruption.UnavailableTaints
	}
	for i := range in.Nodes {
		if assignment := &in.Nodes[i]; isMember(assignment, in.Group) {
			nodes = append(nodes, disruptionplan.MemberOf(assignment.Node, taints))
		}
	}
	return &disruptionplan.Input{
		Now: in.Now, Group: in.Group.NodeGroup, Members: disruptionplan.NewMembers(nodes...), Window: plan.WindowOf(in.Group.NodeGroup, in.Now),
		Waiting: &disruptionplan.Queue{}, Disrupted: in.Group.Status.Reservations,
	}
}

func isMember(assignment *members.Assignment, group *members.Group) bool {
	return assignment.Group != nil && assignment.Group.UID == group.UID
}

// setWindow sets whether disruptions may begin.
func (d *GroupDisruption) setWindow(group *v1alpha1.NodeGroup, now time.Time) {
	window := plan.WindowOf(group, now)
	d.Open, d.Closed, d.Changes = !window.Closed, window.Message, timeOf(window.Changes)
}
