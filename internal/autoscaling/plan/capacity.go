package plan

import (
	"encoding/json"
	"strconv"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/machineapi"
)

// labelAccelerator is a label of Nodes with GPUs. From this label cluster-autoscaler knows that a device plugin has to report the GPUs:
// https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.0/cluster-autoscaler/cloudprovider/clusterapi/clusterapi_provider.go
const labelAccelerator = "cluster-api/accelerator"

// copyCapacity copies what other controllers have written in the annotations of the Machine API to the annotations that cluster-autoscaler reads. It
// never overwrites a value that it has not copied itself. Where Drover itself sets the annotations of a provider's capacity, there is nothing to
// copy.
func copyCapacity(annotations map[string]string) {
	if _, managed := annotations[machineapi.CapacityAnnotation]; managed {
		return
	}
	values, before, record := copied(annotations), recordOf(annotations), map[string]string{}
	for _, key := range machineapi.CapacityAnnotations() {
		has, found := annotations[key]
		written, own := before[key]
		value, wanted := values[key]
		switch {
		case found && (!own || has != written):
		case wanted:
			annotations[key], record[key] = value, value
		case found:
			delete(annotations, key)
		}
	}
	setRecord(annotations, record)
}

// copied returns the values that follow from the annotations of the Machine API. What cannot be read is left out.
func copied(annotations map[string]string) map[string]string {
	values := map[string]string{}
	if cpu, ok := annotations[machineapi.OldCPUAnnotation]; ok {
		if quantity, valid := machineapi.ParseQuantity(cpu); valid && quantity.Sign() > 0 {
			values[machineapi.CPUAnnotation] = cpu
		}
	}
	if mebibytes := number(annotations[machineapi.OldMemoryAnnotation]); mebibytes > 0 && mebibytes < 1<<40 {
		values[machineapi.MemoryAnnotation] = strconv.FormatInt(mebibytes<<20, 10)
	}
	if pods := number(annotations[machineapi.OldMaxPodsAnnotation]); pods > 0 {
		values[machineapi.MaxPodsAnnotation] = strconv.FormatInt(pods, 10)
	}
	if count := number(annotations[machineapi.OldGPUAnnotation]); count > 0 {
		values[machineapi.GPUCountAnnotation], values[machineapi.GPUTypeAnnotation] = strconv.FormatInt(count, 10), machineapi.OldGPUType
	}
	return values
}

// number reads an integer; zero if it is none.
func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return value
}

// removeCopies removes the copies that still are what was copied. A record that names other annotations is not Drover's.
func removeCopies(annotations map[string]string) {
	record := recordOf(annotations)
	for _, key := range machineapi.CapacityAnnotations() {
		if value, copied := record[key]; copied && annotations[key] == value {
			delete(annotations, key)
		}
	}
	setRecord(annotations, nil)
}

func recordOf(annotations map[string]string) map[string]string {
	record := map[string]string{}
	if json.Unmarshal([]byte(annotations[machineapi.CapacityCopyAnnotation]), &record) != nil {
		return map[string]string{}
	}
	return record
}

func setRecord(annotations, record map[string]string) {
	text, err := json.Marshal(record)
	if err != nil || len(record) == 0 {
		delete(annotations, machineapi.CapacityCopyAnnotation)
		return
	}
	annotations[machineapi.CapacityCopyAnnotation] = string(text)
}

// lacksAccelerator reports whether a MachineSet has GPUs and no valid label of an accelerator.
func lacksAccelerator(set *machinev1beta1.MachineSet) bool {
	if number(set.Annotations[machineapi.OldGPUAnnotation]) <= 0 && number(set.Annotations[machineapi.GPUCountAnnotation]) <= 0 {
		return false
	}
	label := set.Spec.Template.Spec.Labels[labelAccelerator]
	return label == "" || len(validation.IsValidLabelValue(label)) > 0
}
