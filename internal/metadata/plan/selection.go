package plan

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/ownership"
)

// dropUntrusted drops the labels that isolate workloads, if kubelets can change what the group selects its Nodes by: one could give its own Node such
// a label by joining the group.
func (d *Declaration) dropUntrusted(nodes *v1alpha1.NodeSelection) {
	if trustsSelection(nodes) {
		return
	}
	labels := d.Desired[ownership.Label]
	for _, key := range ownership.KeysOf(labels).Sorted() {
		if isolates(key) {
			delete(labels, key)
			d.problem(ownership.Label, key, Untrusted, "label %q is left out: kubelets can change what spec.nodes selects by; "+
				"select by a label below node-restriction.kubernetes.io, or by machineSets", key)
		}
	}
}

// trustsSelection reports whether a kubelet cannot have its Node selected: by MachineSets, or by a label that NodeRestriction keeps from kubelets.
func trustsSelection(nodes *v1alpha1.NodeSelection) bool {
	if nodes.Selector == nil {
		return nodes.MachineSets != nil
	}
	for key := range nodes.Selector.MatchLabels {
		if isolates(key) {
			return true
		}
	}
	return slices.ContainsFunc(nodes.Selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return isolates(r.Key) && (r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists)
	})
}

// isolates reports whether a label serves to isolate workloads, so that kubelets may not set it:
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-isolation-restriction
func isolates(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	return found && within(domain, "node-restriction.kubernetes.io")
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// dropDeselecting drops the labels that would make the group not select its Nodes any more. With such a label, a Node would leave with the write,
// lose the label when it is released, come back and be written again, without end.
func (d *Declaration) dropDeselecting(nodes *v1alpha1.NodeSelection) {
	declared := d.Desired[ownership.Label]
	for _, key := range ownership.KeysOf(declared).Sorted() {
		if deselects(nodes, key, declared[key]) {
			d.problem(ownership.Label, key, Deselects, "label %q is left out: spec.nodes does not select Nodes with the value %q", key, declared[key])
			delete(declared, key)
		}
	}
}

// deselects reports whether a group does not select Nodes with a label, whatever else they have.
func deselects(nodes *v1alpha1.NodeSelection, key, value string) bool {
	with := labels.Set{key: value}
	switch {
	case !nodes.IncludeControlPlane && nodestate.IsControlPlane(with):
		return true
	case nodes.Selector == nil:
		return false
	}
	about := &metav1.LabelSelector{}
	if wanted, found := nodes.Selector.MatchLabels[key]; found {
		about.MatchLabels = map[string]string{key: wanted}
	}
	for _, requirement := range nodes.Selector.MatchExpressions {
		if requirement.Key == key {
			about.MatchExpressions = append(about.MatchExpressions, requirement)
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(about)
	// An invalid selector has a condition of its own, and selects no Node.
	return err == nil && !selector.Matches(with)
}
