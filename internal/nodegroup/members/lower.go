package members

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// Lower returns what the layer of MachineSets has to know of a Node's NodeGroup. set is the MachineSet that asks: the group guards taints of its own
// Machines' MachineSet only.
func (f *Finder) Lower(ctx context.Context, node *corev1.Node, set types.UID) (plan.Lower, error) {
	groups, err := f.Groups(ctx)
	if err != nil {
		return plan.Lower{}, err
	}
	assignment, err := f.Assign(ctx, groups, node)
	if err == nil {
		err = assignment.Decodable()
	}
	if err != nil {
		return plan.Lower{}, err
	}
	lower := assignment.Lower(groups)
	if assignment.MachineSet == nil || assignment.MachineSet.UID != set {
		lower.Group, lower.Guarded = "", nil
	}
	return lower, nil
}

// Lower is that of a Finder for the Node's MachineSet. A group that is being deleted, or that writes nothing, keeps nothing. Where no group selects
// the MachineSet, one guards its taints that may have selected it before its selector became invalid.
func (m Assignment) Lower(groups []*Group) (lower plan.Lower) {
	lower.Owned = m.owned()
	if m.Group != nil && m.Group.DeletionTimestamp != nil {
		m.Group = nil
	}
	if m.Group != nil && !m.Group.Spec.DryRun {
		lower.Kept = m.Group.Declaration.KeptEntries()
	}
	if m.MachineSet == nil {
		return lower
	}
	candidates := []*Group{m.Group}
	if m.Group == nil {
		candidates = invalidOf(groups, m.MachineSet)
	}
	for _, candidate := range candidates {
		isMember := candidate == m.Group && candidate.Declaration.TemplatePolicy != ""
		m.Group = candidate
		if guarded := m.GuardedTaints(); guarded.Len() > 0 || isMember {
			lower.Group, lower.Guarded = candidate.Name, guarded
			break
		}
	}
	return lower
}

// owned returns the keys that the Node has from a NodeGroup: those of its record that the status of the group confirms.
func (m *Assignment) owned() (owned ownership.Section) {
	if m.Recorded == nil {
		return owned
	}
	// What cannot be read names nothing, and is reported with the decision for the group.
	record, _ := ownership.ParseGroupRecord(m.Node.Annotations[ownership.AnnotationGroupRecord])
	for _, kind := range ownership.Kinds {
		owned = owned.With(kind, record.Of(kind).And(m.Recorded.Confirmed.Of(kind)))
	}
	return owned
}
