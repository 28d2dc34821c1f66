package machineset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func setOf(replicas int32) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: "web", UID: "uid-of-web", Generation: 1, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)),
	}}
	set.Spec.Replicas = &replicas
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "web"}
	set.Spec.Template.Labels = map[string]string{"pool": "web", "tier": "front"}
	set.Spec.Template.Annotations = map[string]string{"note": "from the template"}
	set.Spec.Template.Spec.Labels = map[string]string{"node": "label"}
	set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"size":"large"}`)}
	return set
}

// machineOf is a Machine of the set, with a Node of its own name.
func machineOf(name string, edits ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"pool": "web", "tier": "front"},
		CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Annotations: map[string]string{}, Finalizers: []string{machinev1beta1.MachineFinalizer},
		OwnerReferences: []metav1.OwnerReference{*controllerRef(setOf(1))},
	}}
	machine.Status.NodeRef = &corev1.ObjectReference{Name: name}
	for _, edit := range edits {
		edit(machine)
	}
	return machine
}

func nodeOf(name string, ready corev1.ConditionStatus, since time.Time) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}
	return node
}

// pool is a set with as many Machines as it asks for, a, b, c and so on, all with Nodes that are ready.
func pool(replicas int32) []client.Object {
	objects := []client.Object{setOf(replicas)}
	for i := range replicas {
		name := string('a' + i)
		objects = append(objects, machineOf(name), nodeOf(name, corev1.ConditionTrue, start.Add(-time.Hour)))
	}
	return objects
}

func loose(m *machinev1beta1.Machine)   { m.OwnerReferences = nil }
func relabel(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "other"} }

// denied is the answer of admission.
func denied(string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "x", errors.New("quota"))
}

// broken is an error after which the outcome is unknown.
func broken(string) error { return apierrors.NewInternalError(errors.New("etcd")) }

// only has just some requests fail.
func only(prefix string, fail func(string) error) func(string) error {
	return func(write string) error {
		if strings.HasPrefix(write, prefix) {
			return fail(write)
		}
		return nil
	}
}

// guard is the precondition of a deletion.
func guard(machine *machinev1beta1.Machine) client.Preconditions {
	return client.Preconditions{UID: &machine.UID, ResourceVersion: &machine.ResourceVersion}
}

// failing is a reader that fails for one kind.
type failing struct {
	client.Reader
	kind string
	err  error
}

func (f *failing) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if fmt.Sprintf("%T", object) == f.kind {
		return f.err
	}
	return f.Reader.Get(ctx, key, object, options...)
}

func (f *failing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if fmt.Sprintf("%T", list) == f.kind {
		return f.err
	}
	return f.Reader.List(ctx, list, options...)
}
