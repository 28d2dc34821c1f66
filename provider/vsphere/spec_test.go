package vsphere

import (
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/machine"
	"github.com/drover-io/drover/provider"
)

// validSpec returns a providerSpec that nothing is wrong with.
func validSpec() *machinev1beta1.VSphereMachineProviderSpec {
	return &machinev1beta1.VSphereMachineProviderSpec{
		Template: "template", Workspace: &machinev1beta1.Workspace{Server: "vcenter", Datacenter: "dc1", Folder: "/dc1/vm/nodes"},
		Network:        machinev1beta1.NetworkSpec{Devices: []machinev1beta1.NetworkDeviceSpec{{NetworkName: "nodes"}}},
		UserDataSecret: &corev1.LocalObjectReference{Name: "user-data"}, CredentialsSecret: &corev1.LocalObjectReference{Name: "credentials"},
		TagIDs:    []string{"urn:vmomi:InventoryServiceTag:5736bf56-49f5-4667-b38c-b97e09dc9578:GLOBAL"},
		DataDisks: []machinev1beta1.VSphereDisk{{Name: "images_1", SizeGiB: 100, ProvisioningMode: machinev1beta1.ProvisioningModeThin}},
	}
}

// TestValidate: the messages are the same as in machine-api-operator.
func TestValidate(t *testing.T) {
	disk := func(change func(*machinev1beta1.VSphereDisk)) func(*machinev1beta1.VSphereMachineProviderSpec) {
		return func(s *machinev1beta1.VSphereMachineProviderSpec) { change(&s.DataDisks[0]) }
	}
	device := func(change func(*machinev1beta1.NetworkDeviceSpec)) func(*machinev1beta1.VSphereMachineProviderSpec) {
		return func(s *machinev1beta1.VSphereMachineProviderSpec) { change(&s.Network.Devices[0]) }
	}
	for want, change := range map[string]func(*machinev1beta1.VSphereMachineProviderSpec){
		"":                           func(*machinev1beta1.VSphereMachineProviderSpec) {},
		"template must be provided":  func(s *machinev1beta1.VSphereMachineProviderSpec) { s.Template = "" },
		"workspace must be provided": func(s *machinev1beta1.VSphereMachineProviderSpec) { s.Workspace = nil },
		"server must be provided":    func(s *machinev1beta1.VSphereMachineProviderSpec) { s.Workspace.Server = "" },
		`folder must be absolute path: expected prefix "/dc1/vm/"`: func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Workspace.Folder = "nodes"
		},
		"vmGroup must be less than 80 characters in length": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Workspace.VMGroup = strings.Repeat("g", 81)
		},
		"at least 1 network device must be provided": func(s *machinev1beta1.VSphereMachineProviderSpec) { s.Network.Devices = nil },
		"providerSpec.network.devices: must have at most 10 items": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Network.Devices = make([]machinev1beta1.NetworkDeviceSpec, 11)
		},
		"networkName must be provided": device(func(d *machinev1beta1.NetworkDeviceSpec) { d.NetworkName = "" }),
		"devices[0].ipAddrs":           device(func(d *machinev1beta1.NetworkDeviceSpec) { d.IPAddrs = []string{"10.0.0.1"} }),
		"devices[0].gateway":           device(func(d *machinev1beta1.NetworkDeviceSpec) { d.Gateway = "x" }),
		"devices[0].nameservers":       device(func(d *machinev1beta1.NetworkDeviceSpec) { d.Nameservers = []string{"1.1.1.1 init=/bin/sh"} }),
		"userDataSecret.name: name must be provided": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.UserDataSecret = &corev1.LocalObjectReference{}
		},
		"credentialsSecret.name: name must be provided": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.CredentialsSecret = &corev1.LocalObjectReference{}
		},
		"a maximum of 10 tags are allowed": func(s *machinev1beta1.VSphereMachineProviderSpec) { s.TagIDs = make([]string, 11) },
		"tag ID must be in the format of urn:vmomi:InventoryServiceTag:<UUID>:GLOBAL": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.TagIDs = []string{"region"}
		},
		"has a zone": device(func(d *machinev1beta1.NetworkDeviceSpec) { d.Nameservers = []string{"fe80::1%] rd.break x="} }),
		"at most 10 addresses, pools and nameservers each are allowed": device(func(d *machinev1beta1.NetworkDeviceSpec) {
			d.AddressesFromPools = make([]machinev1beta1.AddressesFromPool, 11)
		}),
		"a name or path must not have more than 1024 characters": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Workspace.Folder = "/dc1/vm/" + strings.Repeat("./", 1024)
		},
		"providerSpec.memoryMiB: must not exceed": func(s *machinev1beta1.VSphereMachineProviderSpec) { s.MemoryMiB = 1 << 43 },
		"must not be negative":                    func(s *machinev1beta1.VSphereMachineProviderSpec) { s.DiskGiB = -1 },
		"cloneMode":                               func(s *machinev1beta1.VSphereMachineProviderSpec) { s.CloneMode = "instantClone" },
		"providerSpec.disks: data disk count must not exceed 29": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.DataDisks = make([]machinev1beta1.VSphereDisk, 30)
		},
		"data disk name must be set":        disk(func(d *machinev1beta1.VSphereDisk) { d.Name = "" }),
		"data disk name must not exceed 80": disk(func(d *machinev1beta1.VSphereDisk) { d.Name = strings.Repeat("d", 81) }),
		"data disk name must consist only of alphanumeric characters, hyphens and underscores, " +
			"and must start and end with an alphanumeric character.": disk(func(d *machinev1beta1.VSphereDisk) { d.Name = "_a" }),
		"data disk size must be set":                 disk(func(d *machinev1beta1.VSphereDisk) { d.SizeGiB = 0 }),
		"data disk size (GiB) must not exceed 16384": disk(func(d *machinev1beta1.VSphereDisk) { d.SizeGiB = 16385 }),
		"is none of Thin, Thick, EagerlyZeroed":      disk(func(d *machinev1beta1.VSphereDisk) { d.ProvisioningMode = "Sparse" }),
	} {
		t.Run(want, func(t *testing.T) {
			spec := validSpec()
			change(spec)
			err := validate(spec)
			if want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			isInvalid := provider.ReasonOf(err, "") == machinev1beta1.InvalidConfigurationMachineError
			if !isInvalid || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSpecOf(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing": "", "no JSON": "{", "another type": `{"numCPUs": "four"}`, "no whole number": `{"numCPUs": 4.5}`, "a list": `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			if spec, err := specOf(&machinev1beta1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(raw)}}); err == nil {
				t.Errorf("it is read as %+v", spec)
			}
		})
	}
	spec, err := specOf(&machinev1beta1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"template":"t","newer":1}`)}})
	if err != nil || spec.UserDataSecret.Name != "worker-user-data" || spec.CredentialsSecret.Name != "vsphere-cloud-credentials" {
		t.Errorf("%+v, %v", spec, err)
	}
}

func TestOptionsOf(t *testing.T) {
	options, err := optionsOf(map[string]string{"cloudConfig": "kube-system/cloud", "cloudConfigKey": "conf", "clusterID": "a", "maxClones": "3"})
	want := defaultOptions()
	want.CloudConfig, want.CloudConfigKey = types.NamespacedName{Namespace: "kube-system", Name: "cloud"}, "conf"
	want.ClusterID, want.MaxClones = "a", 3
	if err != nil || options != want {
		t.Errorf("%+v, %v", options, err)
	}
	for name, value := range map[string]string{"cloudConfig": "cloud", "maxClones": "0", "other": "x"} {
		if _, err := optionsOf(map[string]string{name: value}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("option %s", name)) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

// TestSpecOf_Case: the case of field names does not matter, as in machine-api-operator, even if the providerSpec is invalid. The case of kind and
// apiVersion does matter, because the admission policies find the providerSpec by them.
func TestSpecOf_Case(t *testing.T) {
	raw := `{"Kind": "VSphereMachineProviderSpec", "apiVersion": "machine.openshift.io/v1beta1", "Template": "t", "numcpus": 4, "memorymib": 16384,
		"diskgib": 120, "Workspace": {"Server": "vcenter", "resourcepool": "/dc1/host/c/Resources/p", "work\u017fpace": "x"}, "\u017fnapshot": "s",
		"network": {"Devices": [{"networkname": "n", "addressesfrompools": [{"Group": "g"}]}]}, "datadisks": [{"Name": "d", "sizegib": 1}],
		"credentialssecret": {"name": "c"}, "tagids": ["a"]}`
	value := machinev1beta1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(raw)}}
	want := &machinev1beta1.VSphereMachineProviderSpec{
		Template: "t", NumCPUs: 4, MemoryMiB: 16384, DiskGiB: 120, TagIDs: []string{"a"},
		Workspace: &machinev1beta1.Workspace{Server: "vcenter", ResourcePool: "/dc1/host/c/Resources/p"},
		Network: machinev1beta1.NetworkSpec{Devices: []machinev1beta1.NetworkDeviceSpec{
			{NetworkName: "n", AddressesFromPools: []machinev1beta1.AddressesFromPool{{Group: "g"}}},
		}},
		DataDisks:         []machinev1beta1.VSphereDisk{{Name: "d", SizeGiB: 1}},
		CredentialsSecret: &corev1.LocalObjectReference{Name: "c"}, UserDataSecret: &corev1.LocalObjectReference{Name: "worker-user-data"},
	}
	spec, err := specOf(&value)
	if err != nil || !apiequality.Semantic.DeepEqual(spec, want) {
		t.Errorf("%+v, %v", spec, err)
	}
	if known := connectionIn(&value); known == nil || known.Workspace.Server != "vcenter" || known.CredentialsSecret.Name != "c" {
		t.Errorf("the vCenter is that of %+v", known)
	}
	// Of two fields that differ in their case only, the one counts that the API server writes last.
	twice := machinev1beta1.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(`{"template":"last","TEMPLATE":"first"}`)}}
	if spec, err := specOf(&twice); err != nil || spec.Template != "last" {
		t.Errorf("%+v, %v", spec, err)
	}
	actuators, err := machine.NewActuators(provider.Environment{}, nil, provider.Provider{
		Name: Name, Kinds: kinds(), New: func(provider.Environment) (provider.Actuator, error) { return &Actuator{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	set := &machinev1beta1.MachineSet{}
	set.Spec.Template.Spec.ProviderSpec = value
	if served, err := actuators.Capacity(set); err == nil {
		t.Errorf("it is served by %+v", served)
	}
	value.Value.Raw = []byte(strings.Replace(raw, "Kind", "kind", 1))
	if _, err := actuators.Capacity(set); err != nil {
		t.Error(err)
	}
}
