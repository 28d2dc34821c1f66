package members

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// PlanInput returns what the roll-out of a group is decided on. nodes are those that Finder.Nodes returns for it, and decide says what each of them
// is to carry.
func PlanInput(group *Group, nodes []Assignment, now time.Time, decide func(*Assignment) metadataplan.GroupDecision) *plan.Input {
	in := &plan.Input{Group: group.NodeGroup, SelectorError: group.Err, Declaration: group.Declaration, Now: now}
	for i := range nodes {
		assignment := &nodes[i]
		switch {
		case assignment.Group != nil && assignment.Group.UID == group.UID:
			in.Nodes = append(in.Nodes, assignment.planNode(group, decide(assignment)))
		case assignment.Recorded != nil && assignment.Recorded.UID == group.UID:
			in.Released = append(in.Released, assignment.planNode(group, decide(assignment)))
		}
		in.Overlaps = append(in.Overlaps, assignment.overlaps(group)...)
	}
	return in
}

// overlaps returns the other groups that select a Node of a group, or that have a Node that the group selects.
func (m *Assignment) overlaps(of *Group) []plan.Overlap {
	var overlaps []plan.Overlap
	selected := false
	for _, group := range append([]*Group{m.Group}, m.Others...) {
		switch {
		case group == nil:
		case group.UID == of.UID:
			selected = true
		default:
			overlaps = append(overlaps, plan.Overlap{Node: m.Node.Name, Group: group.Name})
		}
	}
	if !selected {
		return nil
	}
	return overlaps
}

func (m *Assignment) planNode(of *Group, metadata metadataplan.GroupDecision) plan.Node {
	node := m.Node
	out := plan.Node{
		Name: node.Name, Zone: node.Labels[corev1.LabelTopologyZone], Created: node.CreationTimestamp.Time, Metadata: metadata,
		Labels: node.Labels,
	}
	out.Leaving = m.Machine != nil && m.Machine.DeletionTimestamp != nil
	if m.Recorded != nil && m.Recorded.UID == of.UID {
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
