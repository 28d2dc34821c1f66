package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

func TestParameters(t *testing.T) {
	group := func(change func(*v1alpha1.NodeGroupSpec)) v1alpha1.NodeGroup {
		var g v1alpha1.NodeGroup
		change(&g.Spec)
		return g
	}
	labels := func(keys ...string) v1alpha1.NodeGroup {
		return group(func(spec *v1alpha1.NodeGroupSpec) {
			spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
			for _, key := range keys {
				spec.Nodes.Selector.MatchLabels[key] = "x"
			}
		})
	}
	expressions := group(func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "example.com/tier", Operator: metav1.LabelSelectorOpExists}, {Key: "b", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	})
	owner := group(func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes.ClusterAPI = &v1alpha1.ClusterAPIOwner{ClusterName: "c"}
	})
	budget := group(func(spec *v1alpha1.NodeGroupSpec) { spec.Disruption = &v1alpha1.Disruption{} })
	sets := group(func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "x"}
	})
	const owners = "cluster.x-k8s.io/cluster-name\ncluster.x-k8s.io/cluster-namespace\ncluster.x-k8s.io/owner-kind\ncluster.x-k8s.io/owner-name"
	const reboot = "weave.works/kured-reboot-in-progress"
	data := func(labels, annotations, signs string) map[string]string {
		return map[string]string{KeyLabels: labels, KeyAnnotations: annotations, KeyBudgetAnnotations: signs}
	}
	for name, c := range map[string]struct {
		groups []v1alpha1.NodeGroup
		want   map[string]string
	}{
		"no group":              {nil, data("", "", "")},
		"MachineSets only":      {[]v1alpha1.NodeGroup{sets}, data("", "", "")},
		"labels, each key once": {[]v1alpha1.NodeGroup{labels("b", "a"), expressions}, data("a\nb\nexample.com/tier", "", "")},
		"an owner and a budget": {[]v1alpha1.NodeGroup{owner, budget, owner}, data("", owners, reboot)},
		"what no Node has":      {[]v1alpha1.NodeGroup{labels("a\nb", "", "a b", strings.Repeat("a", 1<<20), "ok")}, data("ok", "", "")},
	} {
		if got, left := Parameters(c.groups); !maps.Equal(got, c.want) || left != nil {
			t.Errorf("%s: %q, want %q; left are %q", name, got, c.want, left)
		}
	}
}

// TestParameters_TooManyLabels: what the newest groups need does not displace what older ones have, and a ConfigMap has space for the rest.
func TestParameters_TooManyLabels(t *testing.T) {
	const perGroup = 100
	var groups []v1alpha1.NodeGroup
	for i := range maxLabels/perGroup + 1 {
		var g v1alpha1.NodeGroup
		g.Name, g.CreationTimestamp = fmt.Sprint("g", i), metav1.Unix(int64(1000-i), 0)
		g.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{}}
		for k := range perGroup {
			prefix := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61)
			g.Spec.Nodes.Selector.MatchLabels[prefix+"/"+fmt.Sprintf("%063d", i*perGroup+k)] = "x"
		}
		groups = append(groups, g)
	}
	data, left := Parameters(groups)
	if !slices.Equal(left, []string{"g0"}) {
		t.Errorf("left are %q, want the newest group", left)
	}
	if got := strings.Count(data[KeyLabels], "\n") + 1; got != maxLabels {
		t.Errorf("%d labels, want %d", got, maxLabels)
	}
	if size := len(data[KeyLabels]); size > corev1.MaxSecretSize*9/10 {
		t.Errorf("the ConfigMap has %d bytes, of which an API server takes %d", size, corev1.MaxSecretSize)
	}
}
