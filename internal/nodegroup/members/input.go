package members

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// PlanInput returns what the roll-out of a group is decided on. nodes are those that Finder.Nodes returns for it, and decide says what each of them
// is to carry.
func PlanInput(group *Group, nodes []Assignment, now time.Time, decide func(*Assignment) metadataplan.GroupDecision) *plan.Input {
	in := &plan.Input{
		Group: group.NodeGroup, SelectorError: group.Err, Declaration: group.Declaration, Now: now, Nodes: make([]plan.Node, 0, len(nodes)),
	}
	for i := range nodes {
		assignment := &nodes[i]
		switch {
		case assignment.Group != nil && assignment.Group.UID == group.UID:
			in.Nodes = append(in.Nodes, assignment.planNode(group, decide(assignment)))
		case assignment.isRecorded(group):
			node := assignment.planNode(group, decide(assignment))
			node.Taken = assignment.Group != nil
			in.Released = append(in.Released, node)
		}
		in.Overlaps = append(in.Overlaps, assignment.overlaps(group)...)
	}
	return in
}

// overlaps returns the other groups that select a Node of a group, or that have a Node that the group selects.
func (m *Assignment) overlaps(of *Group) []plan.Overlap {
	if len(m.Others) == 0 && (m.Group == nil || m.Group.UID == of.UID) {
		return nil
	}
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
	out.Joining = disruptionplan.IsJoining(node)
	out.Leaving = m.Machine != nil && m.Machine.DeletionTimestamp != nil ||
		slices.ContainsFunc(disruptionplan.Signs(node, unavailableTaints(of)), isLeaving)
	if m.isRecorded(of) {
		out.Owned = recordedKeys(node)
	}
	if declared := m.Declaration(); m.Group != nil && m.Group.UID == of.UID && declared != m.Group.Declaration {
		out.Guarded = declared.Section()
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			out.Ready, out.ReadyChange = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return out
}

// isRecorded reports whether a Node has anything to be given back to it: its record names a group, and it is not being deleted.
func (m *Assignment) isRecorded(of *Group) bool {
	return m.Recorded != nil && m.Recorded.UID == of.UID && m.Node.DeletionTimestamp == nil
}

// isLeaving reports whether a Node with a sign becomes NotReady on purpose: it is being deleted, restarted or updated.
func isLeaving(sign disruptionplan.Sign) bool {
	switch sign {
	case disruptionplan.SignDeleted, disruptionplan.SignTainted, disruptionplan.SignReboot, disruptionplan.SignMachineConfig:
		return true
	}
	return false
}

// unavailableTaints returns the keys that a group adds to the taints of unavailable Nodes.
func unavailableTaints(group *Group) []string {
	if group.Spec.Disruption == nil {
		return nil
	}
	return group.Spec.Disruption.UnavailableTaints
}

// recordedKeys returns the keys that a Node's record names; an unreadable record names none.
func recordedKeys(node *corev1.Node) ownership.Section {
	record, err := ownership.ParseGroupRecord(node.Annotations[ownership.AnnotationGroupRecord])
	if err != nil {
		return ownership.Section{}
	}
	return record.Section
}
