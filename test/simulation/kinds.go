package simulation

import (
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// kind is what the server knows of a kind of objects.
type kind struct {
	name  string
	group schema.GroupVersion
	make  func() client.Object
	// status: the status is a subresource. generation: changes of the rest are counted.
	status, generation bool
}

// kinds are all kinds that the controllers read or write. The scheduler goes through them in this order.
var kinds = []*kind{
	{"MachineSet", machinev1beta1.GroupVersion, func() client.Object { return &machinev1beta1.MachineSet{} }, true, true},
	{"Machine", machinev1beta1.GroupVersion, func() client.Object { return &machinev1beta1.Machine{} }, true, true},
	{"MachineHealthCheck", machinev1beta1.GroupVersion, func() client.Object { return &machinev1beta1.MachineHealthCheck{} }, true, true},
	{"Node", corev1.SchemeGroupVersion, func() client.Object { return &corev1.Node{} }, true, false},
	{"Pod", corev1.SchemeGroupVersion, func() client.Object { return &corev1.Pod{} }, true, false},
	{"Lease", coordinationv1.SchemeGroupVersion, func() client.Object { return &coordinationv1.Lease{} }, false, false},
	{"PodDisruptionBudget", policyv1.SchemeGroupVersion, func() client.Object { return &policyv1.PodDisruptionBudget{} }, true, true},
	{"VolumeAttachment", storagev1.SchemeGroupVersion, func() client.Object { return &storagev1.VolumeAttachment{} }, true, false},
	{"DaemonSet", schema.GroupVersion{Group: "apps", Version: "v1"}, func() client.Object { return &metav1.PartialObjectMetadata{} }, true, true},
}

// groupKinds are the additional kinds in worlds with NodeGroups.
var groupKinds = []*kind{
	{"NodeGroup", v1alpha1.GroupVersion, func() client.Object { return &v1alpha1.NodeGroup{} }, true, true},
	{"NodeMaintenance", medik8s.GroupVersion, func() client.Object { return &medik8s.NodeMaintenance{} }, true, true},
}

func (k *kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.group.Group, Resource: k.name}
}

// allKinds are kinds and groupKinds.
var allKinds = slices.Concat(kinds, groupKinds)

func kindNamed(name string) *kind {
	for _, k := range allKinds {
		if k.name == name {
			return k
		}
	}
	panic(fmt.Sprintf("the simulation does not know the kind %q", name))
}

// kindOf finds the kind of an object, or of a list.
func kindOf(object runtime.Object) *kind {
	name := object.GetObjectKind().GroupVersionKind().Kind
	if name == "" {
		found, _, err := known().ObjectKinds(object)
		must(err)
		name = found[0].Kind
	}
	return kindNamed(strings.TrimSuffix(name, "List"))
}

// keyOf is how an object is called within its kind.
func keyOf(object metav1.Object) string { return keyFor(object.GetNamespace(), object.GetName()) }

func keyFor(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
