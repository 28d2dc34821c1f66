package vsphere

import (
	"cmp"
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

var _ provider.CapacityProvider = (*Actuator)(nil)

// Capacity returns the size of the virtual machines of a MachineSet. A size that is zero in the providerSpec comes from the template. A vCenter is
// asked only for the template, and its answer is kept.
func (a *Actuator) Capacity(ctx context.Context, set *machinev1beta1.MachineSet) (*provider.Capacity, error) {
	spec, err := specOf(&set.Spec.Template.Spec.ProviderSpec)
	if err != nil {
		return nil, err
	}
	if err := validate(spec); err != nil {
		return nil, err
	}
	var template *vcenter.Template
	if spec.NumCPUs == 0 || spec.MemoryMiB == 0 || spec.DiskGiB == 0 || spec.CloneMode == machinev1beta1.LinkedClone {
		if template, err = a.templateOf(ctx, set.Namespace, spec); err != nil {
			return nil, err
		}
	}
	cpus, memory, disk := sizeOf(spec, template)
	return &provider.Capacity{Resources: corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(memory<<20, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(disk<<30, resource.BinarySI),
	}}, nil
}

// sizeOf returns the number of processors, MiB of memory and GiB of disk of a virtual machine. The template is not needed if a providerSpec of full
// clones names all three.
func sizeOf(spec *machinev1beta1.VSphereMachineProviderSpec, template *vcenter.Template) (cpus, memory, disk int64) {
	cpus, memory, disk = int64(spec.NumCPUs), spec.MemoryMiB, int64(spec.DiskGiB)
	if template == nil {
		return cpus, memory, disk
	}
	if isLinked(spec, template) {
		disk = template.DiskGiB // it does not grow
	}
	return cmp.Or(cpus, int64(template.CPUs)), cmp.Or(memory, template.MemoryMiB), cmp.Or(disk, template.DiskGiB)
}

// templateOf looks up the template of a providerSpec. What is not in the vCenter may appear there, so no error is final.
func (a *Actuator) templateOf(ctx context.Context, namespace string, spec *machinev1beta1.VSphereMachineProviderSpec) (*vcenter.Template, error) {
	t, err := a.connect(ctx, namespace, spec)
	if err != nil {
		return nil, err
	}
	place, err := t.lookUpPlace(ctx)
	if err != nil {
		return nil, err
	}
	return t.vcenter.Template(ctx, place, spec.Template)
}
