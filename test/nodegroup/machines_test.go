package nodegroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestMachineSet_GoesBeforeTheGroup: a group selects the Nodes of a MachineSet; a key that both declare has the MachineSet's value, and the group's
// when the MachineSet no longer declares it.
func TestMachineSet_GoesBeforeTheGroup(t *testing.T) {
	f := besideOthers(t, "sets", 0)
	f.Pool(cluster.PoolOptions{Name: "sets", Machines: 2})
	f.create(f.newGroup("sets", withLabel("example.com/team", "group"), withLabel("example.com/tier", "web"), func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: cluster.MachineNamespace, Names: []string{"sets"}}}
	}))
	f.eventuallyCondition("sets", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.Nodes("sets", "has the group's labels", hasLabel("example.com/team", "group"))

	declare := func(labels map[string]string) {
		harness.Update(f.World, f.Set, "sets", func(set *machinev1beta1.MachineSet) { set.Spec.Template.Spec.Labels = labels })
	}
	declare(map[string]string{"example.com/team": "set"})
	f.Nodes("sets", "has the MachineSet's label", hasLabel("example.com/team", "set"))
	f.eventuallyCondition("sets", v1alpha1.ConditionReady, metav1.ConditionFalse, plan.ReasonMachineDeclares)
	f.Nodes("sets", "keeps the group's other label", hasLabel("example.com/tier", "web"))

	declare(nil)
	f.Nodes("sets", "has the group's label again", hasLabel("example.com/team", "group"))
	f.eventuallyCondition("sets", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)

	// What both declare with the same value stays, without a gap: metadata leaves it to the group.
	declare(map[string]string{"example.com/tier": "web", "example.com/own": "1"})
	f.Nodes("sets", "has the MachineSet's other label", hasLabel("example.com/own", "1"))
	declare(nil)
	f.Nodes("sets", "has lost it", hasLabel("example.com/own", ""))
	f.Nodes("sets", "keeps what the group declares", func(node *corev1.Node) error {
		if record := node.Annotations[ownership.AnnotationRecord]; strings.Contains(record, "example.com/tier") {
			return fmt.Errorf("metadata has or had the label of Node %s: %s", node.Name, record)
		}
		return hasLabel("example.com/tier", "web")(node)
	})
}

// TestMachineSet_ChangesWhileItsNodesMove: Nodes go from one group to another while their MachineSet changes. What the MachineSet declares counts,
// what both groups declare stays, and nothing is set once more. Each Node is written at most once for each of the two changes.
func TestMachineSet_ChangesWhileItsNodesMove(t *testing.T) {
	f := besideOthers(t, "moving", 0)
	f.Pool(cluster.PoolOptions{Name: "moving", Machines: 3})
	nodes := []string{"moving-0", "moving-1", "moving-2"}
	half := func(value string) {
		for _, name := range nodes {
			f.label(name, labelHalf, value)
			f.label(name, labelPool, "moving")
		}
	}
	half("x")
	for _, group := range []struct{ name, half string }{{"a", "x"}, {"b", "y"}} {
		f.create(f.newGroup("moving-"+group.name, ofHalf(group.half), withLabel("example.com/both", "yes"), withLabel("example.com/team", group.name),
			withLabel("example.com/only-"+group.name, "yes"), withSetOnceTaint("example.com/once-"+group.name), withRelease(v1alpha1.ReleaseRemove)))
	}
	f.Nodes("moving", "is in the first group", func(node *corev1.Node) error {
		return errors.Join(hasLabel("example.com/team", "a")(node), hasTaint("example.com/once-a", true)(node))
	})
	for _, name := range nodes {
		f.untaint(name)
	}
	mark := f.AuditMark()
	half("y")
	harness.Update(f.World, f.Set, "moving", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "set", "example.com/only-a": "yes"}
	})
	f.Nodes("moving", "has what the MachineSet and the second group declare", func(node *corev1.Node) error {
		if len(node.Spec.Taints) > 0 {
			t.Errorf("Node %s has the taints %v", node.Name, harness.Taints(node))
		}
		return errors.Join(hasLabel("example.com/both", "yes")(node), hasLabel("example.com/team", "set")(node),
			hasLabel("example.com/only-a", "yes")(node), hasLabel("example.com/only-b", "yes")(node))
	})
	f.eventuallyCondition("moving-b", v1alpha1.ConditionReady, metav1.ConditionFalse, plan.ReasonMachineDeclares)
	if names := f.written(mark); len(names) > 3*len(nodes) {
		t.Errorf("written are the Nodes, and the Machines of the same names, %v", names)
	}
}

// TestClusterAPI_NodesOfAMachineDeployment: Nodes belong to a group by the annotations that the Cluster API sets. This includes Nodes of the
// MachineSet that a later roll-out of the MachineDeployment creates.
func TestClusterAPI_NodesOfAMachineDeployment(t *testing.T) {
	f := besideOthers(t, "capi", 0)
	owned := func(set string) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Annotations["cluster.x-k8s.io/cluster-name"] = "prod"
			node.Annotations["cluster.x-k8s.io/owner-kind"] = "MachineSet"
			node.Annotations["cluster.x-k8s.io/owner-name"] = set
		}
	}
	f.register("capi-old", "zone-a", owned("prod-md-0-x7k2p"))
	f.register("capi-other", "zone-a", owned("prod-md-0-gpu-x7k2p"))
	f.create(f.newGroup("capi", withLabel("example.com/team", "blue"), func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes = v1alpha1.NodeSelection{ClusterAPI: &v1alpha1.ClusterAPIOwner{
			ClusterName: "prod", Kind: v1alpha1.OwnerMachineDeployment, Name: "prod-md-0",
		}}
	}))
	f.eventuallyCondition("capi", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.register("capi-new", "zone-a", owned("prod-md-0-9hjk6"))
	for _, name := range []string{"capi-old", "capi-new"} {
		f.eventuallyNode(name, "has the label", hasLabel("example.com/team", "blue"))
	}
	if err := hasLabel("example.com/team", "")(f.Node("capi-other")); err != nil {
		t.Errorf("a Node of another MachineDeployment: %v", err)
	}
}
