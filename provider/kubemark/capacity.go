package kubemark

import (
	"context"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-io/drover/provider"
)

var _ provider.CapacityProvider = (*Actuator)(nil)

// What a hollow node has by default: what cadvisor says of it in Kubernetes, and what a kubelet allows. See
// https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/kubelet/cadvisor/testing/cadvisor_fake.go
const (
	defaultCores  = "1"
	defaultMemory = "3840Mi"
	defaultPods   = "110"
)

// Capacity returns what a hollow node of a MachineSet registers with.
func (a *Actuator) Capacity(_ context.Context, set *machinev1beta1.MachineSet) (*provider.Capacity, error) {
	spec, err := specOf(&machinev1beta1.Machine{Spec: set.Spec.Template.Spec})
	if err != nil {
		return nil, err
	}
	if err := a.program.check(spec); err != nil {
		return nil, err
	}
	capacity := &provider.Capacity{
		Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(defaultCores), corev1.ResourceMemory: resource.MustParse(defaultMemory),
			corev1.ResourcePods: resource.MustParse(defaultPods),
		},
		Labels: map[string]string{corev1.LabelOSStable: "linux"}, Taints: spec.Taints,
	}
	if !spec.NumCores.IsZero() {
		capacity.Resources[corev1.ResourceCPU] = spec.NumCores
	}
	if !spec.MemoryCapacity.IsZero() {
		capacity.Resources[corev1.ResourceMemory] = spec.MemoryCapacity
	}
	maps.Copy(capacity.Labels, spec.Labels)
	return capacity, nil
}
