package nodegroup

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/policy"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// otherPool is a patch that takes a Node out of its test's group.
const otherPool = `{"metadata":{"labels":{"example.com/pool":"other"}}}`

// changed is the policy's message about a change of labelPool.
const changed = "a kubelet may not change " + labelPool + ", by which NodeGroups select Nodes"

// denied returns nil if the API server has denied a change of a kubelet in these words.
func denied(err error, words string) error {
	switch {
	case err == nil:
		return errors.New("the API server allows it")
	case !strings.Contains(err.Error(), words):
		return fmt.Errorf("not denied with %q: %w", words, err)
	}
	return nil
}

// eventuallyDenied waits until a kubelet's change of its Node is denied in these words, in the object and in its status. What was allowed before is
// undone.
func (f *fixture) eventuallyDenied(node, text, undo, words string) {
	f.Helper()
	patch := f.kubelet(node)
	for _, status := range []bool{false, true} {
		f.Eventually(fmt.Sprintf("the API server denies %s, status %t", text, status), func() error {
			err := patch(text, status)
			if err == nil {
				f.patchNode(node, undo)
			}
			return denied(err, words)
		})
	}
}

// patchNode writes a Node as an administrator.
func (f *fixture) patchNode(name, text string) {
	f.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := f.Client.Patch(f.Context(), node, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		f.Errorf("%s of Node %s: %v", text, name, err)
	}
}

// withClusterAPI selects Nodes by their owner.
func withClusterAPI(spec *v1alpha1.NodeGroupSpec) {
	spec.Nodes = v1alpha1.NodeSelection{ClusterAPI: &v1alpha1.ClusterAPIOwner{ClusterName: "c", Kind: v1alpha1.OwnerMachineSet, Name: "x"}}
}

// parameters waits until the ConfigMap has these labels and annotations.
func (f *fixture) parameters(labels, annotations string) {
	f.Helper()
	want := map[string]string{policy.KeyLabels: labels, policy.KeyAnnotations: annotations, policy.KeyBudgetAnnotations: ""}
	f.Eventually(fmt.Sprintf("the parameters of the policy are %q", want), func() error {
		var now corev1.ConfigMap
		key := types.NamespacedName{Namespace: harness.SystemNamespace, Name: policy.ConfigMapName}
		if err := f.Client.Get(f.Context(), key, &now); err != nil {
			return err
		}
		if !maps.Equal(now.Data, want) {
			return fmt.Errorf("they are %q", now.Data)
		}
		return nil
	})
}

// remove deletes a NodeGroup and waits until it is gone.
func (f *fixture) remove(name string) {
	f.Helper()
	if err := f.Client.Delete(f.Context(), &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		f.Fatal(err)
	}
	f.eventuallyGone(name)
}

// TestPolicy_APIServerStarts: from the first request on after a start of the API server, others may write Nodes, and kubelets may not change what
// groups select Nodes by. The policy holds without Drover.
func TestPolicy_APIServerStarts(t *testing.T) {
	f := newFixture(t, "policy", 1)
	operator := f.Operator(harness.Options{})
	f.create(f.newGroup("policy"))
	f.eventuallyDenied("policy-00", otherPool, `{"metadata":{"labels":{"example.com/pool":"policy"}}}`, changed)
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := env.Kill(cluster.APIServer, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := env.StartComponent(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if checker != nil {
		checker.Blind(begun, time.Now())
	}
	f.patchNode("policy-00", `{"metadata":{"annotations":{"example.com/written":"after the start"}}}`)
	patch := f.kubelet("policy-00")
	for _, status := range []bool{false, true} {
		if err := denied(patch(otherPool, status), changed); err != nil {
			t.Errorf("after the start, status %t: %v", status, err)
		}
	}
}

// TestPolicy_ParametersFollowTheGroups: the keys of a group count from when Drover sees it until it is gone. What another writer has made of the
// parameters is made right by the next change of a group, and by the next start.
func TestPolicy_ParametersFollowTheGroups(t *testing.T) {
	f := newFixture(t, "parameters", 1)
	operator := f.Operator(harness.Options{})
	f.create(f.newGroup("parameters"))
	f.parameters(labelPool, "")
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: policy.ConfigMapName}}
	text := []byte(`{"data":{"labels":"example.com/forged","budget-annotations":"example.com/forged"}}`)
	if err := f.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, text)); err != nil {
		t.Fatal(err)
	}
	f.create(f.newGroup("parameters-2", withClusterAPI))
	owners := strings.Join([]string{
		"cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/cluster-namespace", "cluster.x-k8s.io/owner-kind", "cluster.x-k8s.io/owner-name",
	}, "\n")
	f.parameters(labelPool, owners)
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := f.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	operator = f.Operator(harness.Options{})
	f.parameters(labelPool, owners)
	f.remove("parameters-2")
	f.parameters(labelPool, "")
	f.remove("parameters")
	f.parameters("", "")
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	patch := f.kubelet("parameters-00")
	f.Eventually("a kubelet may change the label without a group", func() error { return patch(otherPool, true) })
	// Without a group the ConfigMap is there, too.
	if err := f.Client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	f.Operator(harness.Options{})
	f.parameters("", "")
}
