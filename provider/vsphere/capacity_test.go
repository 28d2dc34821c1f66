package vsphere

import (
	"encoding/json"
	"errors"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	vcenterapi "github.com/drover-io/drover/provider/vsphere/internal/vcenter"
	"github.com/drover-io/drover/test/vcenter"
)

// TestCapacity_AsksForTheTemplateOnly: a providerSpec that names its size needs no vCenter.
func TestCapacity_AsksForTheTemplateOnly(t *testing.T) {
	site := &vcenter.Site{Host: "vcenter.example.com", Port: "443"}
	var objects []runtime.Object
	for _, object := range site.Objects(namespace) {
		objects = append(objects, object)
	}
	// It is not running, and so has no session with any vCenter.
	actuator := NewActuator(fake.NewClientset(objects...).CoreV1(), ctrlfake.NewClientBuilder().Build(), defaultOptions())
	set := &machinev1beta1.MachineSet{}
	set.Namespace = namespace
	ask := func(change func(*machinev1beta1.VSphereMachineProviderSpec)) (cpus int64, err error) {
		spec := site.ProviderSpec()
		change(spec)
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
		capacity, err := actuator.Capacity(t.Context(), set)
		if err != nil {
			return 0, err
		}
		return capacity.Resources.Cpu().Value(), nil
	}
	if cpus, err := ask(func(*machinev1beta1.VSphereMachineProviderSpec) {}); err != nil || cpus != 4 {
		t.Errorf("%d CPUs, %v", cpus, err)
	}
	if _, err := ask(func(spec *machinev1beta1.VSphereMachineProviderSpec) { spec.NumCPUs = 0 }); !errors.Is(err, errNotRunning) {
		t.Errorf("for the template's size: %v", err)
	}
}

func TestSizeOf(t *testing.T) {
	template := func(linkable bool) *vcenterapi.Template {
		out := &vcenterapi.Template{CPUs: 2, MemoryMiB: 4096, DiskGiB: 16}
		if linkable {
			out.Current = &types.ManagedObjectReference{}
		}
		return out
	}
	full := machinev1beta1.VSphereMachineProviderSpec{NumCPUs: 4, MemoryMiB: 8192, DiskGiB: 120}
	linked := full
	linked.CloneMode = machinev1beta1.LinkedClone
	for name, c := range map[string]struct {
		spec     machinev1beta1.VSphereMachineProviderSpec
		template *vcenterapi.Template
		want     [3]int64
	}{
		"all is named":                       {full, nil, [3]int64{4, 8192, 120}},
		"nothing is named":                   {machinev1beta1.VSphereMachineProviderSpec{}, template(true), [3]int64{2, 4096, 16}},
		"a linked clone keeps the disk":      {linked, template(true), [3]int64{4, 8192, 16}},
		"without snapshots it is a full one": {linked, template(false), [3]int64{4, 8192, 120}},
	} {
		t.Run(name, func(t *testing.T) {
			cpus, memory, disk := sizeOf(&c.spec, c.template)
			if got := [3]int64{cpus, memory, disk}; got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
