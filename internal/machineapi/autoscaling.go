package machineapi

// Annotations of MachineSets from which cluster-autoscaler reads the size of a group and of its Nodes. Upstream reads the Kubernetes annotations;
// OpenShift's cluster-autoscaler also reads the annotations of the Machine API:
// https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.0/cluster-autoscaler/cloudprovider/clusterapi/clusterapi_utils.go
const (
	MinSizeAnnotation = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size"
	MaxSizeAnnotation = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size"

	// AutoscalerAnnotation names the MachineAutoscaler that has set the two, as namespace/name:
	// https://github.com/openshift/cluster-autoscaler-operator/blob/5673ba0d/pkg/controller/machineautoscaler/machineautoscaler_controller.go
	AutoscalerAnnotation = "autoscaling.openshift.io/machineautoscaler"

	capacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"

	CPUAnnotation       = capacityPrefix + "cpu"
	MemoryAnnotation    = capacityPrefix + "memory"
	DiskAnnotation      = capacityPrefix + "ephemeral-disk"
	MaxPodsAnnotation   = capacityPrefix + "maxPods"
	GPUCountAnnotation  = capacityPrefix + "gpu-count"
	GPUTypeAnnotation   = capacityPrefix + "gpu-type"
	LabelsAnnotation    = capacityPrefix + "labels"
	TaintsAnnotation    = capacityPrefix + "taints"
	DRADriverAnnotation = capacityPrefix + "dra-driver"
	CSIDriverAnnotation = capacityPrefix + "csi-driver"

	OldCPUAnnotation     = "machine.openshift.io/vCPU"
	OldMemoryAnnotation  = "machine.openshift.io/memoryMb"
	OldGPUAnnotation     = "machine.openshift.io/GPU"
	OldMaxPodsAnnotation = "machine.openshift.io/maxPods"
)

// Records of what Drover has written of those annotations, as JSON. A value that differs from the record is a user's.
const (
	// CapacityAnnotation records what it has written because a provider said so.
	CapacityAnnotation = "drover.dev/capacity"
	// CapacityCopyAnnotation records what it has copied from the annotations of the Machine API for a MachineAutoscaler.
	CapacityCopyAnnotation = "drover.dev/capacity-copy"
)

// MaxCapacityValue is how long the value of one of them can be, in bytes, and MaxCapacityRecord how long a record can be.
const (
	MaxCapacityValue  = 16 << 10
	MaxCapacityRecord = 64 << 10
)

// OldGPUType is the type of the GPUs that OldGPUAnnotation counts.
const OldGPUType = "nvidia.com/gpu"

// CapacityAnnotations lists the annotations of the size of a Node.
func CapacityAnnotations() []string {
	return []string{
		CPUAnnotation, MemoryAnnotation, DiskAnnotation, MaxPodsAnnotation, GPUCountAnnotation, GPUTypeAnnotation, LabelsAnnotation, TaintsAnnotation,
		DRADriverAnnotation, CSIDriverAnnotation, OldCPUAnnotation, OldMemoryAnnotation, OldGPUAnnotation, OldMaxPodsAnnotation,
	}
}
