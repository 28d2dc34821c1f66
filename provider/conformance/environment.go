package conformance

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider"
)

// EnvironmentSubject is an Environment under test, on a real API server.
type EnvironmentSubject struct {
	provider.Environment
	// Admin creates and deletes what the tests read.
	Admin client.Client
	// Namespace is where it creates Pods and Secrets; it exists.
	Namespace string
	// Node names a Node that exists.
	Node string
}

// RunEnvironment tests that what a provider gets to work with is as documented.
func RunEnvironment(t *testing.T, s EnvironmentSubject) {
	t.Run("both clients read kinds that Drover does not cache", s.readsOtherKinds)
	t.Run("a Node that the client returns is a copy", s.returnsCopies)
	t.Run("the client writes", s.writes)
}

func (s EnvironmentSubject) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := s.Admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Admin.Delete(context.WithoutCancel(t.Context()), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

func (s EnvironmentSubject) readsOtherKinds(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.Namespace, Name: name} }
	secret := &corev1.Secret{ObjectMeta: named("conformance-credentials"), Data: map[string][]byte{"token": []byte("t")}}
	pod := &corev1.Pod{
		ObjectMeta: named("conformance-pod"),
		Spec:       corev1.PodSpec{NodeName: "conformance-no-node", Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
	s.create(t, secret)
	s.create(t, pod)
	for name, reader := range map[string]client.Reader{"Client": s.Client, "Live": s.Live} {
		var gotSecret corev1.Secret
		if err := reader.Get(t.Context(), client.ObjectKeyFromObject(secret), &gotSecret); err != nil || string(gotSecret.Data["token"]) != "t" {
			t.Errorf("%s reads the Secret as %v: %v", name, gotSecret.Data, err)
		}
		var gotPod corev1.Pod
		if err := reader.Get(t.Context(), client.ObjectKeyFromObject(pod), &gotPod); err != nil || len(gotPod.Spec.Containers) != 1 {
			t.Errorf("%s reads the Pod as %v: %v", name, gotPod.Spec, err)
		}
		var pods corev1.PodList
		if err := reader.List(t.Context(), &pods, client.InNamespace(s.Namespace)); err != nil || len(pods.Items) == 0 {
			t.Errorf("%s lists %d Pods: %v", name, len(pods.Items), err)
		}
	}
}

func (s EnvironmentSubject) returnsCopies(t *testing.T) {
	const key = "conformance.example.com/changed"
	read := func() *corev1.Node {
		node := &corev1.Node{}
		if err := s.Client.Get(t.Context(), client.ObjectKey{Name: s.Node}, node); err != nil {
			t.Fatal(err)
		}
		return node
	}
	first := read()
	if first.Labels == nil {
		t.Fatalf("Node %s has no labels", s.Node)
	}
	first.Labels[key] = "by Get"
	if label, changed := read().Labels[key]; changed {
		t.Fatalf("the change of an object from Get is seen by the next reader: %s", label)
	}
	var nodes corev1.NodeList
	if err := s.Client.List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatalf("listing %d Nodes: %v", len(nodes.Items), err)
	}
	for i := range nodes.Items {
		if labels := nodes.Items[i].Labels; labels != nil {
			labels[key] = "by List"
		}
	}
	if label, changed := read().Labels[key]; changed {
		t.Errorf("the change of an object from List is seen by the next reader: %s", label)
	}
}

func (s EnvironmentSubject) writes(t *testing.T) {
	const key = "conformance.example.com/written"
	value := fmt.Sprint(time.Now().UnixNano())
	node := &corev1.Node{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: s.Node}, node); err != nil {
		t.Fatal(err)
	}
	before := node.DeepCopy()
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value)
	if err := s.Client.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Node{}
	if err := s.Live.Get(t.Context(), client.ObjectKey{Name: s.Node}, got); err != nil || got.Annotations[key] != value {
		t.Errorf("the Node has %q: %v", got.Annotations[key], err)
	}
}
