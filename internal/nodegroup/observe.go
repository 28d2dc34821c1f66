package nodegroup

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// observation is what a reconciliation has read from the cache. The objects are the cache's own and must not be changed.
type observation struct {
	group *members.Group
	// nodes are those that the group selects, and those whose record names it.
	nodes []members.Assignment
}

// observe reads a group and its Nodes; nil when the group is gone.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*observation, error) {
	groups, err := r.Finder.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		if group.Name != key.Name {
			continue
		}
		found, err := r.Finder.Nodes(ctx, groups, group.UID)
		return &observation{group: group, nodes: found}, err
	}
	return nil, nil
}

// input returns what is decided on.
func (rc *reconciliation) input() *plan.Input {
	in := &plan.Input{
		Group: rc.group.NodeGroup, SelectorError: rc.group.Err, Declaration: rc.group.Declaration, Defaults: rc.options.Rollout, Now: rc.now,
	}
	for i := range rc.nodes {
		assignment := &rc.nodes[i]
		switch {
		case assignment.Group != nil && assignment.Group.UID == rc.group.UID:
			in.Nodes = append(in.Nodes, rc.node(assignment))
		case assignment.Recorded != nil && assignment.Recorded.UID == rc.group.UID:
			in.Released = append(in.Released, rc.node(assignment))
		}
		in.Overlaps = append(in.Overlaps, rc.overlaps(assignment)...)
	}
	return in
}

// overlaps returns the other groups that select a Node of this one, or that have a Node that this one selects.
func (rc *reconciliation) overlaps(assignment *members.Assignment) []plan.Overlap {
	var overlaps []plan.Overlap
	selected := false
	for _, group := range append([]*members.Group{assignment.Group}, assignment.Others...) {
		switch {
		case group == nil:
		case group.UID == rc.group.UID:
			selected = true
		default:
			overlaps = append(overlaps, plan.Overlap{Node: assignment.Node.Name, Group: group.Name})
		}
	}
	if !selected {
		return nil
	}
	return overlaps
}

func (rc *reconciliation) node(assignment *members.Assignment) plan.Node {
	node := assignment.Node
	out := plan.Node{
		Name: node.Name, Zone: node.Labels[corev1.LabelTopologyZone], Created: node.CreationTimestamp.Time,
		Metadata: metadataplan.DecideGroup(assignment.Input(rc.options.Protected, rc.now)),
	}
	if assignment.Recorded != nil && assignment.Recorded.UID == rc.group.UID {
		out.Owned = recordedKeys(node)
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			out.Ready, out.ReadyChange = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return out
}

// recordedKeys returns the keys that a Node's record names; an unreadable record names none.
func recordedKeys(node *corev1.Node) ownership.Section {
	record, err := ownership.ParseGroupRecord(node.Annotations[ownership.AnnotationGroupRecord])
	if err != nil {
		return ownership.Section{}
	}
	return record.Section
}
