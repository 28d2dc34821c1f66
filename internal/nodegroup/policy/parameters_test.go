package policy

import (
	"maps"
	"strings"
	"testing"

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
	for name, c := range map[string]struct {
		groups []v1alpha1.NodeGroup
		want   map[string]string
	}{
		"no group":              {nil, nil},
		"MachineSets only":      {[]v1alpha1.NodeGroup{sets}, nil},
		"labels, each key once": {[]v1alpha1.NodeGroup{labels("b", "a"), expressions}, map[string]string{"labels": "a\nb\nexample.com/tier"}},
		"an owner and a budget": {
			[]v1alpha1.NodeGroup{owner, budget, owner}, map[string]string{"annotations": owners, "budget-annotations": reboot},
		},
		"what no Node has": {[]v1alpha1.NodeGroup{labels("a\nb", "", "a b", strings.Repeat("a", 1<<20), "ok")}, map[string]string{"labels": "ok"}},
	} {
		if got := Parameters(c.groups); !maps.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
