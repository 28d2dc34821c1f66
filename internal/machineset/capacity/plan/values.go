package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/provider"
)

// valuesOf returns the annotations for what a provider says of the Nodes of a MachineSet. It leaves out values that are too long for the cache.
func valuesOf(set *machinev1beta1.MachineSet, capacity *provider.Capacity, protected Protected) map[string]string {
	labels, taints := withoutProtected(&set.Spec.Template.Spec, protected)
	values := map[string]string{
		machineapi.LabelsAnnotation:    labelsText(capacity.Labels, labels),
		machineapi.TaintsAnnotation:    taintsText(taints, capacity.Taints),
		machineapi.CSIDriverAnnotation: limitsText(capacity.CSILimits),
	}
	addResources(values, capacity.Resources)
	if gpu := capacity.GPU; gpu.Count > 0 && gpu.Type != "" {
		count := strconv.FormatInt(gpu.Count, 10)
		values[machineapi.GPUCountAnnotation], values[machineapi.GPUTypeAnnotation] = count, string(gpu.Type)
		values[machineapi.DRADriverAnnotation] = gpu.DRADriver
		if gpu.Type == machineapi.OldGPUType {
			values[machineapi.OldGPUAnnotation] = count
		}
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" || len(value) > machineapi.MaxCapacityValue })
	return values
}

// addResources adds cpu, memory, ephemeral-storage and pods. The old annotations are integers: they are rounded down.
func addResources(values map[string]string, resources corev1.ResourceList) {
	add := func(key string, number int64) {
		if number > 0 {
			values[key] = strconv.FormatInt(number, 10)
		}
	}
	quantity := func(name corev1.ResourceName, key string) resource.Quantity {
		value := resources[name]
		if value.Sign() > 0 && key != "" {
			values[key] = value.String()
		}
		return value
	}
	cpu := quantity(corev1.ResourceCPU, machineapi.CPUAnnotation)
	add(machineapi.OldCPUAnnotation, cpu.MilliValue()/1000)
	memory := quantity(corev1.ResourceMemory, machineapi.MemoryAnnotation)
	add(machineapi.OldMemoryAnnotation, memory.Value()>>20)
	quantity(corev1.ResourceEphemeralStorage, machineapi.DiskAnnotation)
	pods := quantity(corev1.ResourcePods, "")
	add(machineapi.MaxPodsAnnotation, pods.Value())
	add(machineapi.OldMaxPodsAnnotation, pods.Value())
}

// labelsText returns the labels of a Node. The template's labels win: Drover applies them to the Node. The hostname label is left out, because it
// differs on every Node.
func labelsText(platform, template map[string]string) string {
	labels := map[string]string{}
	maps.Copy(labels, platform)
	maps.Copy(labels, template)
	maps.DeleteFunc(labels, func(key, value string) bool {
		return key == corev1.LabelHostname || len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0
	})
	return pairs(labels)
}

// taintsText returns the taints of a Node; of two with the same key and effect the first one wins.
func taintsText(lists ...[]corev1.Taint) string {
	var texts []string
	seen := map[[2]string]bool{}
	for _, taint := range slices.Concat(lists...) {
		id := [2]string{taint.Key, string(taint.Effect)}
		if seen[id] || len(validation.IsQualifiedName(taint.Key)) > 0 || len(validation.IsValidLabelValue(taint.Value)) > 0 {
			continue
		}
		seen[id] = true
		texts = append(texts, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// limitsText returns how many volumes of each CSI driver a Node can attach.
func limitsText(limits map[string]int32) string {
	texts := map[string]string{}
	for driver, limit := range limits {
		texts[driver] = strconv.FormatInt(int64(limit), 10)
	}
	return pairs(texts)
}

// pairs returns key=value,key=value in the order of the keys.
func pairs(values map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, key+"="+values[key])
	}
	return strings.Join(texts, ",")
}
