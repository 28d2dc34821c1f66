package members

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// GroupLayer returns what a Node has from its NodeGroup, for a decision about the Node's MachineSet, whose UID is set.
func (f *Finder) GroupLayer(ctx context.Context, node *corev1.Node, set types.UID) (plan.GroupLayer, error) {
	groups, err := f.Groups(ctx)
	if err != nil {
		return plan.GroupLayer{}, err
	}
	assignment, err := f.Assign(ctx, groups, node)
	if err == nil {
		err = assignment.Decodable()
	}
	if err != nil {
		return plan.GroupLayer{}, err
	}
	return assignment.GroupLayerFor(groups, set), nil
}

// GroupLayerFor returns what the Node has from its NodeGroup, for a decision about the MachineSet with a UID. The NodeGroup guards no taints of
// another MachineSet.
func (m *Assignment) GroupLayerFor(groups []*Group, set types.UID) plan.GroupLayer {
	layer := m.GroupLayer(groups)
	if m.MachineSet == nil || m.MachineSet.UID != set {
		layer.Name, layer.Guarded = "", nil
	}
	return layer
}

// GroupLayer returns what the Node has from its NodeGroup, for a decision about the Node's MachineSet. A NodeGroup that is being deleted, or that is
// a dry run, keeps nothing. If no NodeGroup selects the MachineSet, a NodeGroup with an invalid selector guards its taints: it may have selected the
// MachineSet before.
func (m Assignment) GroupLayer(groups []*Group) (layer plan.GroupLayer) {
	layer.Owned = m.owned()
	if m.Group != nil && m.Group.DeletionTimestamp != nil {
		m.Group = nil
	}
	if m.Group != nil && !m.Group.Spec.DryRun {
		layer.Kept = m.Group.Declaration.KeptEntries()
	}
	if m.MachineSet == nil {
		return layer
	}
	candidates := []*Group{m.Group}
	if m.Group == nil {
		candidates = invalidOf(groups, m.MachineSet)
	}
	for _, candidate := range candidates {
		isMember := candidate == m.Group && candidate.Declaration.TemplatePolicy != ""
		m.Group = candidate
		if guarded := m.GuardedTaints(); guarded.Len() > 0 || isMember {
			layer.Name, layer.Guarded = candidate.Name, guarded
			break
		}
	}
	return layer
}

// owned returns the keys that a NodeGroup has set on the Node. A kubelet can write the Node's record, so the record alone is no proof: the status of
// the NodeGroup has to name the key, and a key that kubelets may not write has to have the value that the NodeGroup declares.
func (m *Assignment) owned() (owned ownership.Section) {
	if m.Recorded == nil {
		return owned
	}
	// A record that cannot be read names no key. The decision for the NodeGroup reports it.
	record, _ := ownership.ParseGroupRecord(m.Node.Annotations[ownership.AnnotationGroupRecord])
	live := plan.EntriesOf(m.Node)
	for _, kind := range ownership.Kinds {
		keys := record.Of(kind).And(m.Recorded.Confirmed.Of(kind))
		for key := range keys.NodeRestricted(kind) {
			if value, declared := m.Recorded.Declaration.Desired[kind][key]; !declared || live[kind][key] != value {
				keys = keys.Minus(ownership.NewKeys(key))
			}
		}
		owned = owned.With(kind, keys)
	}
	return owned
}
