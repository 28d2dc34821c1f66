package cmdutil

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
)

// TestSnapshot_Orphan: a Node whose Machine has no controller is in the group of the MachineSet whose selector matches the Machine.
func TestSnapshot_Orphan(t *testing.T) {
	for namespace, want := range map[string]string{"ours": "g", "theirs": ""} {
		t.Run(namespace, func(t *testing.T) {
			labels := map[string]string{"set": "web"}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m", Labels: labels}}
			machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "n"}
			set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "web", UID: "web"}}
			set.Spec.Selector.MatchLabels = labels
			group := &drover.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g"}}
			group.Spec.Nodes.MachineSets = &drover.MachineSetSelection{Namespace: "ours"}
			snapshot := &Snapshot{
				Groups: []*drover.NodeGroup{group}, Nodes: []*corev1.Node{node}, Sets: []*machinev1beta1.MachineSet{set},
				Machines: []*machinev1beta1.Machine{machine},
			}
			got := ""
			if assignment := snapshot.Membership(t.Context()).Of(t.Context(), node); assignment.Group != nil {
				got = assignment.Group.Name
			}
			if got != want {
				t.Errorf("the Node is in the group %q", got)
			}
		})
	}
}
