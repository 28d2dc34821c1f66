package provider

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// CapacityProvider is implemented by an actuator that knows what a Node of a MachineSet will have. Drover writes it to annotations of the MachineSet,
// so that cluster-autoscaler can scale it from zero.
type CapacityProvider interface {
	// Capacity returns what a Node of the MachineSet's template will have, from the providerSpec or from what the actuator has cached. Drover calls it
	// when the template changes, and then once an hour. Nil without an error means that the instance type is unknown: Drover leaves the annotations as
	// they are, with an event. An error changes nothing, either. It is tried again with backoff, and never delays the Machines of the MachineSet. The
	// MachineSet is the cache's own and must not be changed.
	Capacity(ctx context.Context, set *machinev1beta1.MachineSet) (*Capacity, error)
}

// Capacity is what a Node will have. What is the zero value is not known, and no annotation says anything about it.
type Capacity struct {
	// Resources are cpu, memory, ephemeral-storage and pods; others are ignored. cluster-autoscaler needs cpu and memory.
	Resources corev1.ResourceList
	// GPU is what the Node has of one type of GPU.
	GPU GPU
	// Labels are the Node labels that the platform sets: instance type, architecture, operating system, zone, region.
	Labels map[string]string
	// Taints are the taints that the Node registers with, in addition to the taints of the MachineSet's template.
	Taints []corev1.Taint
	// CSILimits are how many volumes a Node can attach, by the name of the CSI driver.
	CSILimits map[string]int32
}

// GPU is a number of GPUs of one type.
type GPU struct {
	// Type is the name of the resource, such as nvidia.com/gpu.
	Type corev1.ResourceName
	// Count is how many; zero is none.
	Count int64
	// DRADriver is the driver that publishes them as ResourceSlices; empty where a device plugin publishes them as a resource.
	DRADriver string
}
