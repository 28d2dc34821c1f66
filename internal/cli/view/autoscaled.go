package view

import (
	"cmp"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/ownership"
)

// AutoscaledSets are autoscaled MachineSets whose templates lack the same labels and taints that their NodeGroup declares. When such a MachineSet has
// no Nodes, cluster-autoscaler does not know that its new Nodes will have them.
type AutoscaledSets struct {
	// MachineSets are namespace/name.
	MachineSets []string `json:"machineSets"`
	Labels      []string `json:"labels,omitempty"`
	// Taints are key:Effect.
	Taints []string `json:"taints,omitempty"`
}

// autoscaledSets returns the autoscaled MachineSets of a group, or of its Nodes, that lack what the group declares.
func autoscaledSets(in *GroupInput) (found []AutoscaledSets) {
	sets := map[types.UID]*machinev1beta1.MachineSet{}
	for _, set := range in.Machines.Sets {
		sets[set.UID] = set
	}
	for i := range in.Nodes {
		if set := in.Nodes[i].MachineSet; set != nil && isMember(&in.Nodes[i], in.Group) {
			sets[set.UID] = set
		}
	}
	for _, set := range sets {
		next := AutoscaledSets{MachineSets: []string{set.Namespace + "/" + set.Name}}
		if _, autoscaled := set.Annotations[machineapi.MaxSizeAnnotation]; !autoscaled {
			continue
		}
		next.Labels = missing(in, ownership.Label, ownership.KeysOf(set.Spec.Template.Spec.Labels).Union(labelsOfNewNodes(set)))
		next.Taints = missing(in, ownership.Taint, taintsOfNewNodes(set))
		at := slices.IndexFunc(found, func(known AutoscaledSets) bool {
			return slices.Equal(known.Labels, next.Labels) && slices.Equal(known.Taints, next.Taints)
		})
		switch {
		case len(next.Labels)+len(next.Taints) == 0:
		case at < 0:
			found = append(found, next)
		default:
			found[at].MachineSets = append(found[at].MachineSets, next.MachineSets...)
		}
	}
	for i := range found {
		slices.Sort(found[i].MachineSets)
	}
	slices.SortFunc(found, func(a, b AutoscaledSets) int { return cmp.Compare(a.MachineSets[0], b.MachineSets[0]) })
	return found
}

// missing returns the keys that a group declares, and which its Nodes get, without some others.
func missing(in *GroupInput, kind ownership.Kind, has ownership.Keys) []string {
	protected := in.Protected.Of(kind)
	return slices.DeleteFunc(ownership.KeysOf(in.Group.Declaration.Desired[kind]).Minus(has).Sorted(), protected)
}

// labelsOfNewNodes returns the keys of the labels that cluster-autoscaler takes from the annotations of a MachineSet, as key=value.
func labelsOfNewNodes(set *machinev1beta1.MachineSet) ownership.Keys {
	keys := ownership.Keys{}
	for entry := range strings.SplitSeq(set.Annotations[machineapi.LabelsAnnotation], ",") {
		key, _, _ := strings.Cut(entry, "=")
		keys.Add(strings.TrimSpace(key))
	}
	return keys
}

// taintsOfNewNodes returns the IDs of the taints of a MachineSet's template, and of those in its annotations, as key=value:Effect.
func taintsOfNewNodes(set *machinev1beta1.MachineSet) ownership.Keys {
	keys := ownership.KeysOf(ownership.TaintEntries(set.Spec.Template.Spec.Taints))
	for entry := range strings.SplitSeq(set.Annotations[machineapi.TaintsAnnotation], ",") {
		at := strings.LastIndex(entry, ":")
		if at < 0 {
			continue
		}
		key, _, _ := strings.Cut(entry[:at], "=")
		keys.Add(ownership.TaintID(corev1.Taint{Key: strings.TrimSpace(key), Effect: corev1.TaintEffect(strings.TrimSpace(entry[at+1:]))}))
	}
	return keys
}
