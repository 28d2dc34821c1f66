package attacks

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/test/harness"
)

// TestMachineAuthor_CountsAsControlPlane: Nodes may have the label of the control plane from an author of MachineSets whom an earlier version, or the
// administrator, let set it.
func TestMachineAuthor_CountsAsControlPlane(t *testing.T) {
	w := harness.NewWorld(t, env)
	asMaintainer := newMaintainer(t, w)
	s := w.Site()
	members := s.AddNodes(3, harness.ControlPlane)
	s.AddNodes(5, func(node *corev1.Node) { node.Labels[nodestate.LabelControlPlane] = "" })
	for _, name := range members {
		w.CreateWithCleanup(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system", Name: "etcd-" + name, Labels: map[string]string{"tier": "control-plane", "component": "etcd"},
				Annotations:     map[string]string{corev1.MirrorPodAnnotationKey: "hash"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: w.Node(name).UID}},
			},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "etcd", Image: "sandbox.invalid/etcd"}}},
		})
	}
	down := w.Node(members[2])
	for i := range down.Status.Conditions {
		down.Status.Conditions[i].Status = corev1.ConditionUnknown
	}
	if err := w.Client.Status().Update(t.Context(), down); err != nil {
		t.Fatal(err)
	}
	harness.Start(t, env, harness.Options{Args: []string{"--controllers=maintenance"}})
	attack(t, machineAuthor, "gives workers the label of the control plane, so that a second of three members may go", func(t *testing.T) string {
		m := builder.NodeMaintenance(s.Name, members[0])
		if err := asMaintainer.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		defer endMaintenance(t, w, m)
		said := awaitLastError(t, w, m.Name, "can not put master/control-plane node into maintenance")
		if w.Node(members[0]).Spec.Unschedulable {
			t.Error("the member of the control plane is cordoned")
		}
		return said
	})
}
