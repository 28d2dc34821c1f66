package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/provider"
)

// override is a resource that a user can set with annotations of either family; the first annotation that a user has set counts.
type override struct {
	name corev1.ResourceName
	keys []string
	// old is the one of keys that machine-api-operator writes.
	old string
	// mebibytes are the keys whose values are numbers of MiB.
	mebibytes string
}

// maxMebibytes is more memory than any Node has; a number of bytes still holds it.
const maxMebibytes = 1 << 40

var overrides = []override{
	{name: corev1.ResourceCPU, keys: []string{machineapi.CPUAnnotation, machineapi.OldCPUAnnotation}, old: machineapi.OldCPUAnnotation},
	{
		name: corev1.ResourceMemory, keys: []string{machineapi.MemoryAnnotation, machineapi.OldMemoryAnnotation},
		old: machineapi.OldMemoryAnnotation, mebibytes: machineapi.OldMemoryAnnotation,
	},
	{name: corev1.ResourcePods, keys: []string{machineapi.MaxPodsAnnotation, machineapi.OldMaxPodsAnnotation}, old: machineapi.OldMaxPodsAnnotation},
}

// withUserValues returns a capacity with the values that a user has set in one of the two families, so that the other one says the same.
func withUserValues(capacity *provider.Capacity, annotations map[string]string, isOwn func(key, value string) bool) *provider.Capacity {
	changed := *capacity
	changed.Resources = capacity.Resources.DeepCopy()
	if changed.Resources == nil {
		changed.Resources = corev1.ResourceList{}
	}
	userValue := func(key string) (quantity resource.Quantity, found bool) {
		text, found := annotations[key]
		if !found || isOwn(key, text) {
			return quantity, false
		}
		return machineapi.ParseQuantity(text)
	}
	for _, o := range overrides {
		for _, key := range o.keys {
			value, found := userValue(key)
			if !found {
				continue
			}
			if key == o.mebibytes {
				value = *resource.NewQuantity(min(value.Value(), maxMebibytes)<<20, resource.BinarySI)
			}
			changed.Resources[o.name] = value
			break
		}
	}
	for _, key := range []string{machineapi.GPUCountAnnotation, machineapi.OldGPUAnnotation} {
		if value, found := userValue(key); found {
			changed.GPU.Count = value.Value()
			if changed.GPU.Type == "" {
				changed.GPU.Type = machineapi.OldGPUType
			}
			break
		}
	}
	return &changed
}
