package policy

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/members"
)

// The keys of the ConfigMap's data. Each value has a key of labels or annotations in each line. The policy reads them.
const (
	// KeyLabels has the labels that groups select Nodes by.
	KeyLabels = "labels"
	// KeyAnnotations has the annotations that groups select Nodes by.
	KeyAnnotations = "annotations"
	// KeyBudgetAnnotations has the annotations that count against the budgets of groups.
	KeyBudgetAnnotations = "budget-annotations"
)

// maxLabels bounds the labels of all groups together: a ConfigMap holds 1 MiB, and the key of a label is 317 bytes at most.
const maxLabels = 2500

// Parameters returns the data of the ConfigMap for these groups: all three keys, with empty values for none. What cannot be the key of a label is
// left out: no Node has it. A group that is being deleted counts until it is gone. The oldest groups come first; left has the names of the groups
// that did not fit, because they select by more labels than are kept.
func Parameters(groups []v1alpha1.NodeGroup) (data map[string]string, left []string) {
	labels, annotations, signs := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, group := range byAge(groups) {
		spec := &group.Spec
		if with := labels.Union(selectingLabels(spec.Nodes.Selector)); with.Len() <= maxLabels {
			labels = with
		} else {
			left = append(left, group.Name)
		}
		if spec.Nodes.ClusterAPI != nil {
			annotations.Insert(members.OwnerAnnotations()...)
		}
		if spec.Disruption != nil {
			signs.Insert(disruptionplan.AnnotationReboot)
		}
	}
	lines := func(keys sets.Set[string]) string { return strings.Join(sets.List(keys), "\n") }
	return map[string]string{KeyLabels: lines(labels), KeyAnnotations: lines(annotations), KeyBudgetAnnotations: lines(signs)}, left
}

// byAge returns the groups, the oldest first.
func byAge(groups []v1alpha1.NodeGroup) []*v1alpha1.NodeGroup {
	sorted := make([]*v1alpha1.NodeGroup, len(groups))
	for i := range groups {
		sorted[i] = &groups[i]
	}
	slices.SortFunc(sorted, members.CompareAge)
	return sorted
}

// selectingLabels returns the keys of the labels that a selector names.
func selectingLabels(selector *metav1.LabelSelector) sets.Set[string] {
	keys := sets.Set[string]{}
	if selector == nil {
		return keys
	}
	keys.Insert(slices.Collect(maps.Keys(selector.MatchLabels))...)
	for _, expression := range selector.MatchExpressions {
		keys.Insert(expression.Key)
	}
	maps.DeleteFunc(keys, func(key string, _ sets.Empty) bool { return len(validation.IsQualifiedName(key)) > 0 })
	return keys
}
