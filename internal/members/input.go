package members

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// PlanInput returns the input for deciding the roll-out of a group. nodes are what Finder.Nodes returns for the group, and decide says what each of
// them is to carry.
func PlanInput(group *Group, nodes []Assignment, now time.Time, decide func(*Assignment) metadataplan.GroupDecision) *plan.Input {
	in := &plan.Input{
		Group: group.NodeGroup, SelectorError: group.Err, Declaration: group.Declaration, Now: now, Nodes: make([]rollout.Node, 0, len(nodes)),
	}
	holdUnfit(group, nodes)
	in.Declaration = withRevision(group.Declaration, Revisions(group, nodes))
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

// Revisions returns what identifies the declarations that the Nodes of a group are to carry: the group's declaration, and a declaration for each
// MachineSet that adds taints to it.
func Revisions(group *Group, nodes []Assignment) sets.Set[string] {
	revisions := sets.New(group.Declaration.Revision)
	for i := range nodes {
		if m := &nodes[i]; m.Group != nil && m.Group.UID == group.UID {
			revisions.Insert(m.Declaration().Revision)
		}
	}
	return revisions
}

// withRevision returns a declaration of a group with the revision of all that its Nodes are to carry: a change of a MachineSet's taints is rolled out
// as one of the group's own.
func withRevision(declaration *metadataplan.Declaration, revisions sets.Set[string]) *metadataplan.Declaration {
	if revisions.Len() == 1 {
		return declaration
	}
	hash := fnv.New64a()
	for _, revision := range sets.List(revisions) {
		_, _ = fmt.Fprintln(hash, revision)
	}
	with := *declaration
	with.Revision = fmt.Sprintf("%s.%016x", declaration.Revision, hash.Sum64())
	return &with
}

// Unfit returns the MachineSets whose taints wait because the status of the group lacks space for them.
func Unfit(nodes []Assignment) sets.Set[types.UID] {
	unfit := sets.Set[types.UID]{}
	for i := range nodes {
		if nodes[i].unfit {
			unfit.Insert(nodes[i].MachineSet.UID)
		}
	}
	return unfit
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

func (m *Assignment) planNode(of *Group, metadata metadataplan.GroupDecision) rollout.Node {
	out := rollout.NewNode(m.Node, m.Machine != nil && m.Machine.DeletionTimestamp != nil, unavailableTaints(of))
	out.Metadata = metadata
	if m.isRecorded(of) {
		out.Owned = recordedKeys(m.Node)
	}
	if declared := m.Declaration(); m.Group != nil && m.Group.UID == of.UID && declared != m.Group.Declaration {
		out.Guarded = declared.Section()
	}
	return out
}

// isRecorded reports whether a Node has anything to be given back to it: its record names a group, and it is not being deleted.
func (m *Assignment) isRecorded(of *Group) bool {
	return m.Recorded != nil && m.Recorded.UID == of.UID && m.Node.DeletionTimestamp == nil
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

// holdUnfit makes the taints of MachineSets wait if they do not fit into the status of the group, which names every key that a Node has from the
// group. Keys that are still to be removed have priority. Then come MachineSets whose keys the status names already, and then the others by name.
func holdUnfit(group *Group, nodes []Assignment) {
	bySet := map[types.UID][]*Assignment{}
	for i := range nodes {
		if m := &nodes[i]; m.Group != nil && m.Group.UID == group.UID && m.Declaration() != m.Group.Declaration {
			bySet[m.MachineSet.UID] = append(bySet[m.MachineSet.UID], m)
		}
	}
	if len(bySet) == 0 {
		return
	}
	named := group.Confirmed.Of(ownership.Taint)
	all := ownership.Section{}
	for _, section := range []ownership.Section{group.Declaration.Section(), group.Confirmed} {
		for _, kind := range ownership.Kinds {
			all = all.With(kind, all.Of(kind).Union(section.Of(kind)))
		}
	}
	taintsOf := func(uid types.UID) ownership.Keys { return bySet[uid][0].Declaration().Section().Of(ownership.Taint) }
	order := slices.SortedFunc(maps.Keys(bySet), func(a, b types.UID) int {
		first, second := bySet[a][0].MachineSet, bySet[b][0].MachineSet
		return cmp.Or(cmp.Compare(taintsOf(a).Minus(named).Len(), taintsOf(b).Minus(named).Len()),
			cmp.Compare(first.Namespace, second.Namespace), cmp.Compare(first.Name, second.Name))
	})
	for _, uid := range order {
		taints := all.Of(ownership.Taint).Union(taintsOf(uid))
		if with := all.With(ownership.Taint, taints); len(metadataplan.OwnedKeys(with)) <= plan.MaxOwnedKeys {
			all = with
			continue
		}
		for _, m := range bySet[uid] {
			m.Hold()
		}
	}
}
