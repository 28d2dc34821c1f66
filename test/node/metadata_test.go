package node

import (
	"fmt"
	"maps"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/test/harness"
)

// testMetadata: what a MachineSet declares reaches Nodes whose kubelets are real, beside what those write themselves, and goes from them again.
// Another operator owns the Machines, as on OpenShift.
func testMetadata(t *testing.T) {
	w := world(t)
	set := harness.NewMachineSet("metal", 2)
	w.CreateWithCleanup(set)
	for _, name := range []string{first, second} {
		machine := harness.NewMachine(name)
		machine.Labels = set.Spec.Selector.MatchLabels
		machine.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, machinev1beta1.GroupVersion.WithKind("MachineSet"))}
		w.CreateWithCleanup(machine)
		machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: name, UID: w.Node(name).UID}
		if err := w.Client.Status().Update(t.Context(), machine); err != nil {
			t.Fatal(err)
		}
	}
	before := states(w)
	harness.Update(w, w.Set, "metal", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
		set.Spec.Template.Spec.Taints = []corev1.Taint{harness.Taint("example.com/team", "blue", corev1.TaintEffectPreferNoSchedule)}
	})
	for _, name := range []string{first, second} {
		w.AwaitNode(name, "has label and taint", func(node *corev1.Node) error {
			return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil, "example.com/team=blue:PreferNoSchedule")
		})
	}
	harness.Update(w, w.Set, "metal", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels, set.Spec.Template.Spec.Taints = nil, nil
	})
	for _, name := range []string{first, second} {
		w.AwaitNode(name, "has them no more", func(node *corev1.Node) error {
			if _, there := node.Labels["example.com/team"]; there || len(node.Spec.Taints) > 0 {
				return fmt.Errorf("labels %v, taints %v", node.Labels, harness.Taints(node))
			}
			return nil
		})
	}
	if after := states(w); !maps.Equal(before, after) {
		t.Errorf("the nodes are not as they were:\n%v\nbefore:\n%v", after, before)
	}
}
