package members

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodestate"
)

func newGroup(name string, nodes v1alpha1.NodeSelection) *Group {
	return Parse(&v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: v1alpha1.NodeGroupSpec{Nodes: nodes}})
}

func bySelector(labels map[string]string) v1alpha1.NodeSelection {
	return v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: labels}}
}

func byClusterAPI(kind v1alpha1.OwnerKind, name string) v1alpha1.NodeSelection {
	return v1alpha1.NodeSelection{ClusterAPI: &v1alpha1.ClusterAPIOwner{ClusterName: "prod", Kind: kind, Name: name}}
}

// capi returns a Node with the annotations of the Cluster API.
func capi(kind, name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		annotationClusterName: "prod", annotationClusterNamespace: "fleet", annotationOwnerKind: kind, annotationOwnerName: name,
	}}}
}

func labelled(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func TestGroup_Selects(t *testing.T) {
	web := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "web", Labels: map[string]string{"gpu": "h200"}}}
	sets := func(change func(*v1alpha1.MachineSetSelection)) v1alpha1.NodeSelection {
		selection := &v1alpha1.MachineSetSelection{Namespace: "machines"}
		change(selection)
		return v1alpha1.NodeSelection{MachineSets: selection}
	}
	long := strings.Repeat("d", 60)
	withControlPlane := bySelector(map[string]string{"pool": "a"})
	withControlPlane.IncludeControlPlane = true
	otherNamespace := byClusterAPI(v1alpha1.OwnerMachineSet, "x")
	otherNamespace.ClusterAPI.ClusterNamespace = "other"
	for name, c := range map[string]struct {
		nodes v1alpha1.NodeSelection
		node  *corev1.Node
		set   *machinev1beta1.MachineSet
		want  bool
	}{
		"a label":           {bySelector(map[string]string{"pool": "a"}), labelled(map[string]string{"pool": "a"}), nil, true},
		"another label":     {bySelector(map[string]string{"pool": "a"}), labelled(map[string]string{"pool": "b"}), nil, false},
		"an empty selector": {bySelector(nil), labelled(map[string]string{"pool": "b"}), nil, false},
		"control plane, excluded": {
			bySelector(map[string]string{"pool": "a"}), labelled(map[string]string{"pool": "a", nodestate.LabelControlPlane: ""}), nil, false,
		},
		"control plane, included":         {withControlPlane, labelled(map[string]string{"pool": "a", nodestate.LabelMaster: ""}), nil, true},
		"any MachineSet of the namespace": {sets(func(*v1alpha1.MachineSetSelection) {}), labelled(nil), web, true},
		"no MachineSet":                   {sets(func(*v1alpha1.MachineSetSelection) {}), labelled(nil), nil, false},
		"a MachineSet by name":            {sets(func(s *v1alpha1.MachineSetSelection) { s.Names = []string{"web"} }), labelled(nil), web, true},
		"another MachineSet":              {sets(func(s *v1alpha1.MachineSetSelection) { s.Names = []string{"db"} }), labelled(nil), web, false},
		"a MachineSet by label": {sets(func(s *v1alpha1.MachineSetSelection) {
			s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"gpu": "h200"}}
		}), labelled(nil), web, true},
		"another namespace":                  {sets(func(s *v1alpha1.MachineSetSelection) { s.Namespace = "other" }), labelled(nil), web, false},
		"a MachinePool":                      {byClusterAPI(v1alpha1.OwnerMachinePool, "p"), capi("MachinePool", "p"), nil, true},
		"another cluster namespace":          {otherNamespace, capi("MachineSet", "x"), nil, false},
		"a MachineDeployment":                {byClusterAPI(v1alpha1.OwnerMachineDeployment, "md-0"), capi("MachineSet", "md-0-x7k2p"), nil, true},
		"a MachineDeployment that begins so": {byClusterAPI(v1alpha1.OwnerMachineDeployment, "md"), capi("MachineSet", "md-0-x7k2p"), nil, false},
		"a MachineDeployment, cut":           {byClusterAPI(v1alpha1.OwnerMachineDeployment, long), capi("MachineSet", long[:58]+"x7k2p"), nil, true},
		"a MachineSet that is named so":      {byClusterAPI(v1alpha1.OwnerMachineDeployment, "md-0"), capi("MachineSet", "md-0"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newGroup("g", c.nodes).Selects(c.node, c.set); got != c.want {
				t.Errorf("selects: %t", got)
			}
		})
	}
}

func TestParse_InvalidSelector(t *testing.T) {
	group := newGroup("g", v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Maybe"}},
	}})
	if group.Err == nil || group.Selects(labelled(map[string]string{"pool": "a"}), nil) {
		t.Errorf("error %v", group.Err)
	}
}

// TestSelect: a Node belongs to the oldest group. A group that is being deleted has only the Nodes that no other group selects.
func TestSelect(t *testing.T) {
	all := bySelector(map[string]string{"pool": "a"})
	old, young, going := newGroup("old", all), newGroup("a-young", all), newGroup("going", all)
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	going.CreationTimestamp = metav1.NewTime(at)
	going.DeletionTimestamp = &metav1.Time{Time: at}
	old.CreationTimestamp, young.CreationTimestamp = metav1.NewTime(at.Add(time.Hour)), metav1.NewTime(at.Add(2*time.Hour))
	groups := []*Group{young, going, old}
	Sort(groups)
	group, others := Select(groups, labelled(map[string]string{"pool": "a"}), nil)
	if group != old || len(others) != 2 {
		t.Errorf("group %s, others %d", group.Name, len(others))
	}
	if group, _ := Select([]*Group{going}, labelled(map[string]string{"pool": "a"}), nil); group != going {
		t.Error("a group that is being deleted has lost its Nodes before they are released")
	}
}
