package policy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
)

// The keys of the ConfigMap's data. Each value has a key of labels or annotations in each line. The policy reads them.
const (
	// KeyLabels has the labels by which groups select Nodes.
	KeyLabels = "labels"
	// KeyAnnotations has the annotations by which groups select Nodes.
	KeyAnnotations = "annotations"
	// KeyBudgetAnnotations has the annotations that count against the budgets of groups.
	KeyBudgetAnnotations = "budget-annotations"
)

// Parameters returns the data of the ConfigMap for these groups, without the keys that would be empty. What cannot be the key of a label is left
// out: no Node has it. A group that is being deleted counts until it is gone.
func Parameters(groups []v1alpha1.NodeGroup) map[string]string {
	labels, annotations, signs := sets.New[string](), sets.New[string](), sets.New[string]()
	for i := range groups {
		spec := &groups[i].Spec
		if selector := spec.Nodes.Selector; selector != nil {
			for key := range selector.MatchLabels {
				labels.Insert(key)
			}
			for _, expression := range selector.MatchExpressions {
				labels.Insert(expression.Key)
			}
		}
		if spec.Nodes.ClusterAPI != nil {
			annotations.Insert(members.OwnerAnnotations()...)
		}
		if spec.Disruption != nil {
			signs.Insert(disruptionplan.AnnotationReboot)
		}
	}
	data := map[string]string{}
	for name, keys := range map[string]sets.Set[string]{KeyLabels: labels, KeyAnnotations: annotations, KeyBudgetAnnotations: signs} {
		valid := slices.DeleteFunc(sets.List(keys), func(key string) bool { return len(validation.IsQualifiedName(key)) > 0 })
		if len(valid) > 0 {
			data[name] = strings.Join(valid, "\n")
		}
	}
	return data
}
