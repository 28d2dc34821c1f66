package vsphere

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/conformance"
)

func TestConformance(t *testing.T) {
	f := newFixture(t)
	conformance.Run(t, conformance.Subject{
		Actuator: f.actuator,
		Machine:  func(_ *testing.T, name string) *machinev1beta1.Machine { return f.machine(name, f.site.ProviderSpec()) },
		Invalid: func(_ *testing.T, name string) *machinev1beta1.Machine {
			spec := f.site.ProviderSpec()
			spec.Template = ""
			return f.machine(name, spec)
		},
		// The size of the disk comes from the template.
		Sized: func(_ *testing.T) *machinev1beta1.Machine {
			spec := f.site.ProviderSpec()
			spec.DiskGiB = 0
			return f.machine("sized", spec)
		},
		Capacity: &provider.Capacity{Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
		}},
		Lose: func(_ *testing.T, machine *machinev1beta1.Machine) { f.destroy(machine.Name) },
		Count: func(_ *testing.T, machine *machinev1beta1.Machine) int {
			if f.state().Machines[machine.Name] == "" {
				return 0
			}
			return 1
		},
	})
}

// destroy takes a virtual machine away, as an administrator of the vCenter can.
func (f *fixture) destroy(name string) {
	f.Helper()
	vm := f.vm(name)
	if off, err := vm.PowerOff(f.Context()); err != nil {
		f.Fatal(err)
	} else if err := off.Wait(f.Context()); err != nil {
		f.Fatal(err)
	}
	if gone, err := vm.Destroy(f.Context()); err != nil {
		f.Fatal(err)
	} else if err := gone.Wait(f.Context()); err != nil {
		f.Fatal(err)
	}
}
