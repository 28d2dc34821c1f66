package members

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/ownership"
)

// Annotations of Nodes that the Cluster API sets to say who owns the Node's Machine:
// https://github.com/kubernetes-sigs/cluster-api/blob/v1.12.0/api/core/v1beta2/machine_types.go
const (
	annotationClusterName      = "cluster.x-k8s.io/cluster-name"
	annotationClusterNamespace = "cluster.x-k8s.io/cluster-namespace"
	annotationOwnerKind        = "cluster.x-k8s.io/owner-kind"
	annotationOwnerName        = "cluster.x-k8s.io/owner-name"
)

// OwnerAnnotations returns the annotations of Nodes that spec.nodes.clusterAPI reads.
func OwnerAnnotations() []string {
	return []string{annotationClusterName, annotationClusterNamespace, annotationOwnerKind, annotationOwnerName}
}

// maxGeneratedBase is how long the part of a MachineSet's name may be that the Cluster API takes from its MachineDeployment; what is longer is cut:
// https://github.com/kubernetes/apiserver/blob/v0.37.1/pkg/storage/names/generate.go
const maxGeneratedBase = 58

// Group is a NodeGroup, parsed once for all of its Nodes. It must not be changed.
type Group struct {
	*v1alpha1.NodeGroup
	// Declaration is what its Nodes are to carry.
	Declaration *plan.Declaration
	// Confirmed is what status.ownedKeys lists.
	Confirmed ownership.Section
	// Err is why it is not known which Nodes the group selects, such as an invalid selector; such a group has no Nodes.
	Err error

	nodes, sets labels.Selector
}

// withRollout returns a NodeGroup with a spec.rollout: a copy with the defaults if it has none and there are any.
func withRollout(group *v1alpha1.NodeGroup, defaults *v1alpha1.Rollout) *v1alpha1.NodeGroup {
	if group.Spec.Rollout != nil || defaults == nil {
		return group
	}
	// A copy of the top suffices: nothing of it is changed.
	out := *group
	out.Spec.Rollout = defaults
	return &out
}

// Parse returns a NodeGroup parsed.
func Parse(group *v1alpha1.NodeGroup) *Group {
	parsed := &Group{Declaration: plan.GroupDeclarationOf(group), nodes: labels.Nothing(), sets: labels.Everything()}
	parsed.setNodeGroup(group)
	selection := &group.Spec.Nodes
	if selection.Selector != nil {
		if parsed.nodes, parsed.Err = metav1.LabelSelectorAsSelector(selection.Selector); parsed.Err != nil {
			parsed.Err = fmt.Errorf("spec.nodes.selector: %w", parsed.Err)
		}
	}
	if sets := selection.MachineSets; sets != nil && sets.Selector != nil {
		if parsed.sets, parsed.Err = metav1.LabelSelectorAsSelector(sets.Selector); parsed.Err != nil {
			parsed.Err = fmt.Errorf("spec.nodes.machineSets.selector: %w", parsed.Err)
		}
	}
	return parsed
}

// setNodeGroup sets the NodeGroup and reads its status. The NodeGroup's spec must be the parsed one.
func (g *Group) setNodeGroup(group *v1alpha1.NodeGroup) {
	g.NodeGroup, g.Confirmed = group, plan.ParseOwnedKeys(group.Status.OwnedKeys)
}

// Selects reports whether the group selects a Node. set is the MachineSet of its Machine, nil for none.
func (g *Group) Selects(node *corev1.Node, set *machinev1beta1.MachineSet) bool {
	selection := &g.Spec.Nodes
	switch {
	case g.Err != nil, !selection.IncludeControlPlane && nodestate.IsControlPlane(node.Labels):
		return false
	case selection.Selector != nil:
		return !g.nodes.Empty() && g.nodes.Matches(labels.Set(node.Labels))
	case selection.MachineSets != nil:
		return set != nil && g.SelectsSet(set)
	case selection.ClusterAPI != nil:
		return ownedBy(node, selection.ClusterAPI)
	}
	return false
}

// SelectsSet reports whether the group selects the Nodes of a MachineSet.
func (g *Group) SelectsSet(set *machinev1beta1.MachineSet) bool {
	selection := g.Spec.Nodes.MachineSets
	return selection != nil && g.Err == nil && set.Namespace == selection.Namespace &&
		(len(selection.Names) == 0 || slices.Contains(selection.Names, set.Name)) && g.sets.Matches(labels.Set(set.Labels))
}

// removes reports whether keys are removed from a Node that the group has declared and that are not declared any more. member reports whether the
// Node still belongs to the group.
func (g *Group) removes(member bool) bool {
	if member && g.DeletionTimestamp == nil {
		return true
	}
	return g.Spec.Metadata != nil && g.Spec.Metadata.OnRelease == v1alpha1.ReleaseRemove
}

// OwnsAll reports whether status.ownedKeys names all that a Node of the group is to carry.
func (g *Group) OwnsAll(declaration *plan.Declaration) bool {
	owned := g.Confirmed
	declared := declaration.Section()
	for _, kind := range ownership.Kinds {
		if declared.Of(kind).Minus(owned.Of(kind)).Len() > 0 {
			return false
		}
	}
	return true
}

// ownedBy reports whether the annotations of a Node name an owner in the Cluster API.
func ownedBy(node *corev1.Node, owner *v1alpha1.ClusterAPIOwner) bool {
	of := node.Annotations
	if of[annotationClusterName] != owner.ClusterName ||
		owner.ClusterNamespace != "" && of[annotationClusterNamespace] != owner.ClusterNamespace {
		return false
	}
	if owner.Kind != v1alpha1.OwnerMachineDeployment {
		return of[annotationOwnerKind] == string(owner.Kind) && of[annotationOwnerName] == owner.Name
	}
	// The controller of a Machine is never a MachineDeployment but one of its MachineSets, whose names are generated.
	base := owner.Name + "-"
	suffix, found := strings.CutPrefix(of[annotationOwnerName], base[:min(len(base), maxGeneratedBase)])
	return of[annotationOwnerKind] == string(v1alpha1.OwnerMachineSet) && found && suffix != "" && !strings.Contains(suffix, "-")
}

// Sort puts the oldest group first: it has the Nodes that several groups select.
func Sort(groups []*Group) {
	slices.SortFunc(groups, func(a, b *Group) int { return CompareAge(a.NodeGroup, b.NodeGroup) })
}

// CompareAge compares groups by age, the oldest first, and groups of the same second by name.
func CompareAge(a, b *v1alpha1.NodeGroup) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Select returns the group that a Node belongs to, nil for none, and the others that select it. The groups must be sorted. A group that is being
// deleted has only Nodes that no other group selects.
func Select(groups []*Group, node *corev1.Node, set *machinev1beta1.MachineSet) (group *Group, others []*Group) {
	for _, candidate := range groups {
		switch {
		case !candidate.Selects(node, set):
		case group == nil:
			group = candidate
		case group.DeletionTimestamp != nil && candidate.DeletionTimestamp == nil:
			group, others = candidate, append(others, group)
		default:
			others = append(others, candidate)
		}
	}
	return group, others
}

// OfSet returns the group that a MachineSet belongs to, nil for none. It is the oldest group that selects the MachineSet; a group that is being
// deleted counts only if no other group does. The groups must be sorted.
func OfSet(groups []*Group, set *machinev1beta1.MachineSet) (group *Group) {
	for _, candidate := range groups {
		if candidate.SelectsSet(set) && (group == nil || group.DeletionTimestamp != nil && candidate.DeletionTimestamp == nil) {
			group = candidate
		}
	}
	return group
}

// invalidOf returns the groups that might select a MachineSet if their selectors were valid.
func invalidOf(groups []*Group, set *machinev1beta1.MachineSet) (invalid []*Group) {
	for _, group := range groups {
		selection := group.Spec.Nodes.MachineSets
		if group.Err != nil && group.DeletionTimestamp == nil && selection != nil && selection.Namespace == set.Namespace {
			invalid = append(invalid, group)
		}
	}
	return invalid
}
