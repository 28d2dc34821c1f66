package e2e

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// foreign are taints that other components put on Nodes; none may be touched (spec metadata-sync.md, D1).
var foreign = []corev1.Taint{
	harness.Taint("node.kubernetes.io/unreachable", "", corev1.TaintEffectNoExecute),
	harness.Taint("node.kubernetes.io/not-ready", "", corev1.TaintEffectNoSchedule),
	harness.Taint("UpdateInProgress", "", corev1.TaintEffectPreferNoSchedule),
	harness.Taint("medik8s.io/drain", "", corev1.TaintEffectNoSchedule),
	harness.Taint("ToBeDeletedByClusterAutoscaler", "1758123456", corev1.TaintEffectNoSchedule),
	harness.Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", corev1.TaintEffectNoSchedule),
	harness.Taint("node.kubernetes.io/unschedulable", "", corev1.TaintEffectNoSchedule),
	harness.Taint("example.com/by-an-admin", "keep", corev1.TaintEffectNoSchedule),
}

func TestMetadata_ReachesExistingNodes(t *testing.T) {
	t.Parallel()
	w := harness.NewWorld(t, env)
	w.Pool(cluster.PoolOptions{Name: "reach", Machines: 3, NodeTaints: foreign})
	shared.For(t, env)
	mark := w.AuditMark()
	harness.Update(w, w.Set, "reach", func(set *machinev1beta1.MachineSet) {
		spec := &set.Spec.Template.Spec
		spec.Labels = map[string]string{"example.com/team": "green"}
		spec.Annotations = map[string]string{"example.com/note": "hello, world"}
		spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
	})
	w.Nodes("reach", "label, annotation and taint", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "green"}, map[string]string{"example.com/note": "hello, world"},
			"example.com/dedicated=one:NoSchedule")
	})
	for i := range 3 {
		machine := w.Machine(fmt.Sprintf("reach-%d", i))
		if machine.Spec.Labels["example.com/team"] != "green" || len(machine.Spec.Taints) != 1 {
			t.Errorf("machine %s: spec is %v, %v", machine.Name, machine.Spec.Labels, machine.Spec.Taints)
		}
		node := w.Node(machine.Name)
		for i, taint := range foreign {
			if node.Spec.Taints[i] != taint {
				t.Errorf("node %s: taint %d is %v, want %v untouched and in its place", node.Name, i, node.Spec.Taints[i], taint)
			}
		}
	}
	if writes := writesOf(w, mark, "reach-"); len(writes) != 6 {
		t.Errorf("%d writes for 3 Machines and 3 Nodes: %v", len(writes), writes)
	}

	// A change of the value alone is a change (D2).
	harness.Update(w, w.Set, "reach", func(set *machinev1beta1.MachineSet) { set.Spec.Template.Spec.Taints[0].Value = "two" })
	w.Nodes("reach", "the taint's value", func(node *corev1.Node) error {
		return harness.Has(node, nil, nil, "example.com/dedicated=two:NoSchedule")
	})

	// And all of it goes again.
	harness.Update(w, w.Set, "reach", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels, set.Spec.Template.Spec.Annotations, set.Spec.Template.Spec.Taints = nil, nil, nil
	})
	w.Nodes("reach", "removal", func(node *corev1.Node) error {
		_, label := node.Labels["example.com/team"]
		_, annotation := node.Annotations["example.com/note"]
		if label || annotation || len(node.Spec.Taints) != len(foreign) {
			return fmt.Errorf("node %s still has label %t, annotation %t, taints %v", node.Name, label, annotation, harness.Taints(node))
		}
		return nil
	})
}

// A new Machine is made from the template as it stands, and the API server takes on it what it would not take on a Node.
func TestMetadata_InvalidEntry(t *testing.T) {
	w := pool(t, "invalid", 1)
	operator := w.Operator(harness.Options{})
	declare(w, "invalid", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{"example.com/team": "blue", "example.com/bad": "-"}
		spec.Annotations = map[string]string{"example.com/note": "x", "not/a/key": "x"}
		spec.Taints = []corev1.Taint{
			harness.Taint("example.com/bad", "", "Sometimes"), harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule),
		}
	})
	complete := func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, map[string]string{"example.com/note": "x"},
			"example.com/dedicated=one:NoSchedule")
	}
	w.Nodes("invalid", "the valid entries", complete)
	hasEvent(w, "MachineSet", "invalid", metadata.EventInvalid, "example.com/bad:Sometimes")
	// The creator of the Machine writes its status next, and expects no other write in between.
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreatePool(t.Context(), w.Cluster.Admin(), cluster.PoolOptions{Name: "invalid", Machines: 1, FirstIndex: 1}); err != nil {
		t.Fatal(err)
	}
	if spec := w.Machine("invalid-1").Spec; spec.Labels["example.com/bad"] != "-" || len(spec.Taints) != 2 {
		t.Fatalf("the new Machine is not made from the template: %v, %v", spec.Labels, spec.Taints)
	}
	w.Operator(harness.Options{})
	w.Eventually("the valid entries on the new Node", func() error { return complete(w.Node("invalid-1")) })
	if events := w.Events("Node", "invalid-1"); len(events[metadata.EventDenied]) > 0 {
		t.Errorf("the API server has refused it: %v", events)
	}
}
