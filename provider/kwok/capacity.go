package kwok

import (
	"context"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/provider"
)

var _ provider.CapacityProvider = (*Actuator)(nil)

// Capacity returns what a Node of a MachineSet registers with.
func (a *Actuator) Capacity(_ context.Context, set *machinev1beta1.MachineSet) (*provider.Capacity, error) {
	spec, err := specOf(&machinev1beta1.Machine{Spec: set.Spec.Template.Spec})
	if err != nil {
		return nil, err
	}
	capacity := &provider.Capacity{Resources: spec.capacity(), Labels: spec.labels(), Taints: spec.Taints}
	for _, gpu := range []corev1.ResourceName{"nvidia.com/gpu", "amd.com/gpu"} {
		if count := capacity.Resources[gpu]; count.Sign() > 0 {
			capacity.GPU = provider.GPU{Type: gpu, Count: count.Value()}
			break
		}
	}
	return capacity, nil
}

// capacity returns what the Node has.
func (s *ProviderSpec) capacity() corev1.ResourceList {
	if len(s.Capacity) == 0 {
		return defaultCapacity()
	}
	return s.Capacity
}

// labels returns the labels of the Node, except for that with its name.
func (s *ProviderSpec) labels() map[string]string {
	labels := map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	for key, value := range map[string]string{
		corev1.LabelInstanceTypeStable: s.InstanceType, corev1.LabelTopologyRegion: s.Region, corev1.LabelTopologyZone: s.Zone,
	} {
		if value != "" {
			labels[key] = value
		}
	}
	maps.Copy(labels, s.Labels)
	return labels
}
