package node

import (
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider/kubemark"
	"github.com/drover-io/drover/test/harness"
)

// hollowNamespace is where the Pods of hollow nodes are.
const hollowNamespace = "kubemark-actuator"

// testKubemark: Machines become Pods with hollow nodes in them, and Nodes that are Ready; labels of the MachineSet reach them; nothing is left.
func testKubemark(t *testing.T) {
	w := world(t)
	set := harness.NewMachineSet("hollow", 3)
	set.Spec.Template.Spec.ProviderSpec.Value.Raw = fmt.Appendf(nil,
		`{"apiVersion":%q,"kind":"KubemarkMachineProviderConfig","numCores":4}`, kubemark.GroupVersion)
	// The CRD has just come.
	w.Eventually("MachineSets can be made", func() error { return w.Client.Create(t.Context(), set) })
	hollow(w, 3)
	harness.Update(w, w.Set, "hollow", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
		set.Spec.Template.Spec.Taints = []corev1.Taint{harness.Taint("example.com/hollow", "", corev1.TaintEffectNoSchedule)}
	})
	w.Eventually("labels and taints reach the Nodes", func() error {
		nodes, err := hollowNodes(w)
		if err != nil {
			return err
		}
		for i := range nodes {
			if err := harness.Has(&nodes[i], map[string]string{"example.com/team": "blue"}, nil, "example.com/hollow=:NoSchedule"); err != nil {
				return err
			}
		}
		return nil
	})
	harness.Update(w, w.Set, "hollow", func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(int32(1)) })
	hollow(w, 1)
	if err := w.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	hollow(w, 0)
	w.Gone(set)
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}} {
		w.Eventually("nothing is left", func() error {
			if err := w.Client.List(t.Context(), list, client.InNamespace(hollowNamespace)); err != nil {
				return err
			}
			if text := fmt.Sprint(names(list)); text != "[]" {
				return fmt.Errorf("there is still %s", text)
			}
			return nil
		})
	}
}

func names(list client.ObjectList) []string {
	var all []string
	switch l := list.(type) {
	case *corev1.PodList:
		for i := range l.Items {
			all = append(all, l.Items[i].Name)
		}
	case *corev1.SecretList:
		for i := range l.Items {
			all = append(all, l.Items[i].Name)
		}
	}
	return all
}

func hollowNodes(w *harness.World) ([]corev1.Node, error) {
	nodes := &corev1.NodeList{}
	err := w.Client.List(w.Context(), nodes, client.MatchingLabels{kubemark.LabelHollow: "true"})
	return nodes.Items, err
}

// hollow waits until so many hollow nodes are there, each Ready and with its Pod.
func hollow(w *harness.World, count int) {
	w.Helper()
	err := harness.WaitLonger(w.Context(), long, time.Second/2, func() error {
		nodes, pods := &corev1.NodeList{}, &corev1.PodList{}
		if err := w.Client.List(w.Context(), nodes, client.MatchingLabels{kubemark.LabelHollow: "true"}); err != nil {
			return err
		}
		if err := w.Client.List(w.Context(), pods, client.InNamespace(hollowNamespace)); err != nil {
			return err
		}
		for i := range nodes.Items {
			if !harness.NodeReady(&nodes.Items[i]) {
				return fmt.Errorf("Node %s is not Ready", nodes.Items[i].Name)
			}
		}
		if len(nodes.Items) != count || len(pods.Items) != count {
			return fmt.Errorf("%d Nodes and %d Pods, want %d; %s", len(nodes.Items), len(pods.Items), count,
				kubectl(w, "get", "machines,pods", "-A", "-o", "wide"))
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}
