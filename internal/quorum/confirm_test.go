package quorum

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/nodestate"
)

// staticPod returns the Pod that a kubelet creates for a static Pod of its Node.
func staticPod(namespace, name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-" + node, Labels: map[string]string{"tier": "control-plane"},
			Annotations:     map[string]string{corev1.MirrorPodAnnotationKey: "hash"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node}},
		},
		Spec: corev1.PodSpec{NodeName: node},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// labelled are three members of the control plane and two workers with its label. One of the members is not ready.
func labelled() []client.Object {
	down := controlPlane("c", nodestate.LabelControlPlane)
	down.Status.Conditions = nil
	return []client.Object{
		controlPlane("a", nodestate.LabelControlPlane), controlPlane("b", nodestate.LabelMaster), down,
		controlPlane("w1", nodestate.LabelControlPlane), controlPlane("w2", nodestate.LabelControlPlane),
	}
}

func TestCheck_ConfirmedMembers(t *testing.T) {
	const denied = "without node a, 1 of 5 control-plane nodes would be ready, and 3 are needed; 2 do not count because they run no static Pod"
	confirmed := []client.Object{
		staticPod("kube-system", "kube-apiserver", "a"), staticPod("kube-system", "etcd", "b"), staticPod("kube-system", "kube-apiserver", "c"),
	}
	for name, c := range map[string]struct {
		pods []client.Object
		want string
	}{
		"no static Pods, as on k3s":   {nil, ""},
		"static Pods of the members":  {confirmed, denied},
		"static Pods of something":    {[]client.Object{staticPod("kube-system", "kube-vip", "a")}, ""},
		"static Pods elsewhere":       {[]client.Object{staticPod("default", "etcd", "a")}, ""},
		"a worker's Pod by its label": {append(confirmed, staticPod("kube-system", "kube-vip", "w1")), denied},
		"a Pod that no kubelet has created": {append(confirmed, staticPod("kube-system", "etcd", "w1", func(pod *corev1.Pod) {
			pod.Annotations = nil
		})), denied},
		"a Pod of another Node": {append(confirmed, staticPod("kube-system", "etcd", "w1", func(pod *corev1.Pod) {
			pod.OwnerReferences[0].Name = "w2"
		})), denied},
		"a Pod of another name": {append(confirmed, staticPod("kube-system", "etcd", "w1", func(pod *corev1.Pod) {
			pod.Name = "etcd-a-copy"
		})), denied},
		"all run one": {append(confirmed, staticPod("kube-system", "etcd", "w1"), staticPod("kube-system", "etcd", "w2")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			guard := New(reader(interceptor.Funcs{}, append(labelled(), c.pods...)...), &served{answers: []error{absent}})
			denial, err := guard.Check(t.Context(), controlPlane("a"))
			if err != nil || (denial == "") != (c.want == "") || !strings.Contains(denial, c.want) {
				t.Errorf("denial %q, want %q: %v", denial, c.want, err)
			}
		})
	}
}

// TestMachineGuard_ConfirmedMembers: on OpenShift the Pods are in other namespaces.
func TestMachineGuard_ConfirmedMembers(t *testing.T) {
	b := budget(1, nil)
	pods := []client.Object{
		&b, staticPod("openshift-kube-apiserver", "kube-apiserver", "a"), staticPod(etcdNamespace, "etcd", "b"), staticPod("kube-system", "etcd", "w1"),
	}
	guard := New(reader(interceptor.Funcs{}, append(labelled(), pods...)...), &served{answers: []error{nil}}).ForMachines()
	if denial, err := guard.Check(t.Context(), controlPlane("a")); err != nil || !strings.Contains(denial, "etcd: w1, w2; if they do not belong") {
		t.Errorf("denial %q: %v", denial, err)
	}
}

func TestCheck_StaticPodsCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ err error }{
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)},
		"failed":    {errors.New("no answer")},
	} {
		t.Run(name, func(t *testing.T) {
			funcs := interceptor.Funcs{List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if _, isPods := list.(*corev1.PodList); isPods {
					return c.err
				}
				return w.List(ctx, list, options...)
			}}
			guard := New(reader(funcs, labelled()...), &served{answers: []error{absent}})
			denial, err := guard.Check(t.Context(), controlPlane("a"))
			if denial != "" || (err == nil) != apierrors.IsForbidden(c.err) {
				t.Errorf("denial %q: %v", denial, err)
			}
		})
	}
}
