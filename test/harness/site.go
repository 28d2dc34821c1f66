package harness

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
)

// SiteLabel is on the Nodes of a Site, and in the node selectors of its pods.
const SiteLabel = "test.drover.dev/site"

// readyAnnotation has kwok play a Node that is not ready; see files/kwok.yaml of test/cluster.
const readyAnnotation = "sandbox.drover.io/ready"

// Site is a namespace and some Nodes that belong to one test: pods of the namespace run on these Nodes only.
type Site struct {
	*World

	// Name is the namespace's, and the beginning of the names of its Nodes.
	Name string
	// Force is whether the test has pods deleted past their budgets.
	Force bool

	nodes int
}

var sites atomic.Int64

// Site makes a namespace and removes it when the test ends.
func (w *World) Site() *Site {
	w.Helper()
	s := &Site{World: w, Name: fmt.Sprintf("site%d", sites.Add(1))}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}})
	w.cleanup(s.clear)
	// Pods need it. Where kube-controller-manager runs it may have been faster.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "default"}}
	if err := w.Client.Create(w.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatalf("making the service account of namespace %s: %v", s.Name, err)
	}
	return s
}

// clear removes the namespace. Its pods are deleted without a grace period, so that they do not affect other tests.
func (s *Site) clear(ctx context.Context) {
	if err := s.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}); err != nil {
		s.Errorf("removing the namespace: %v", err)
	}
	var pods corev1.PodList
	if err := s.Client.List(ctx, &pods, client.InNamespace(s.Name)); err != nil {
		s.Errorf("listing the pods that are left: %v", err)
	}
	for i := range pods.Items {
		// Not in one request for all: that would wait for each.
		if err := s.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			s.Errorf("removing pod %s: %v", pods.Items[i].Name, err)
		}
	}
}

// create makes an object as an administrator does.
func (w *World) create(object client.Object) {
	w.Helper()
	if err := w.Client.Create(w.Context(), object); err != nil {
		w.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}

// CreateWithCleanup creates an object and deletes it when the test ends.
func (w *World) CreateWithCleanup(object client.Object) {
	w.Helper()
	w.create(object)
	w.cleanup(func(ctx context.Context) {
		if err := w.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			w.Errorf("removing %T %s: %v", object, object.GetName(), err)
		}
	})
}

// AddNode makes a worker that kwok plays, waits until it is ready, and returns its name.
func (s *Site) AddNode(change ...func(*corev1.Node)) string {
	s.Helper()
	return s.AddNodes(1, change...)[0]
}

// AddNodes makes several workers.
func (s *Site) AddNodes(count int, change ...func(*corev1.Node)) []string {
	s.Helper()
	names := make([]string, count)
	for i := range names {
		s.nodes++
		node := worker(fmt.Sprintf("%s-n%d", s.Name, s.nodes), s.Name)
		for _, c := range change {
			c(node)
		}
		s.CreateWithCleanup(node)
		names[i] = node.Name
	}
	for _, name := range names {
		s.Eventually("node "+name+" is ready", func() error {
			if node := s.Node(name); !NodeReady(node) {
				return fmt.Errorf("its conditions are %v", node.Status.Conditions)
			}
			return nil
		})
	}
	return names
}

// ControlPlane makes a Node one of the control plane, for AddNode.
func ControlPlane(node *corev1.Node) {
	for _, role := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		node.Labels[role] = ""
	}
	node.Spec.Taints = append(node.Spec.Taints, Taint("node-role.kubernetes.io/control-plane", "", corev1.TaintEffectNoSchedule))
}

// worker is a Node as its kubelet registers it. It is born ready, or kube-controller-manager taints it for a moment.
func worker(name, site string) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("500"), corev1.ResourceEphemeralStorage: resource.MustParse("120Gi"),
	}
	labels := map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", SiteLabel: site,
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "node-role.kubernetes.io/worker": "",
	}
	return builder.Node(name, builder.WithNodeLabels(labels), WithKwok, builder.WithReadySince(corev1.ConditionTrue, time.Now()),
		func(node *corev1.Node) {
			node.Status.Capacity, node.Status.Allocatable = capacity, capacity
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
		})
}

// ChangeNode changes a Node as an administrator does.
func (w *World) ChangeNode(name string, change func(*corev1.Node)) {
	w.Helper()
	Update(w, w.Node, name, change)
}

// Unreachable has a Node look as one whose kubelet is silent.
func (w *World) Unreachable(name string) {
	w.Helper()
	w.ChangeNode(name, func(node *corev1.Node) { node.Annotations[readyAnnotation] = "unknown" })
	w.AwaitNode(name, "unknown readiness", func(node *corev1.Node) error {
		if nodeReadiness(node) != corev1.ConditionUnknown {
			return fmt.Errorf("its conditions are %v", node.Status.Conditions)
		}
		return nil
	})
}

// AwaitNode waits until a condition holds for a Node.
func (w *World) AwaitNode(name, what string, condition func(*corev1.Node) error) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%s of node %s", what, name), func() error {
		node := &corev1.Node{}
		if err := w.Client.Get(w.Context(), types.NamespacedName{Name: name}, node); err != nil {
			return err
		}
		return condition(node)
	})
}

// Gone waits until an object is gone.
func (w *World) Gone(object client.Object) {
	w.Helper()
	name := fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))
	w.Eventually(name+" is gone", func() error {
		err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("it is there: finalizers %v, deleted at %v", object.GetFinalizers(), object.GetDeletionTimestamp())
		}
		return err
	})
}

// merged returns both maps' entries; the second one's count.
func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}
