package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/vcenter"
)

type vsphereProviderSpec = machinev1beta1.VSphereMachineProviderSpec

// longGroup is a name that is too long for a VM group.
var longGroup = strings.Repeat("g", 81)

// vsphereDenials are the changes of a VSphereMachineProviderSpec that are denied, by the text of the denial behind "providerSpec.".
var vsphereDenials = map[string]func(*vsphereProviderSpec){
	"template: Required value: template must be provided":                 func(s *vsphereProviderSpec) { s.Template = "" },
	"workspace: Required value: workspace must be provided":               func(s *vsphereProviderSpec) { s.Workspace = nil },
	"workspace.server: Required value: server must be provided":           func(s *vsphereProviderSpec) { s.Workspace.Server = "" },
	"network.devices: Required value: at least 1 network device must be ": func(s *vsphereProviderSpec) { s.Network.Devices = nil },
	"network.devices[0].networkName: Required value: networkName must be": func(s *vsphereProviderSpec) { s.Network.Devices[0].NetworkName = "" },
	"network.devices: Too many: 11: must have at most 10 items": func(s *vsphereProviderSpec) {
		s.Network.Devices = make([]machinev1beta1.NetworkDeviceSpec, 11)
	},
	`workspace.folder: Invalid value: "nodes": folder must be absolute path: expected prefix "/` + vcenter.Datacenter + `/vm/"`: func(
		s *vsphereProviderSpec,
	) {
		s.Workspace.Folder = "nodes"
	},
	`workspace.vmGroup: Invalid value: "` + longGroup + `": vmGroup must be less than 80 characters in length`: func(s *vsphereProviderSpec) {
		s.Workspace.VMGroup = longGroup
	},
	`tagIDs: Invalid value: ["a","b","","","","","","","","",""]: a maximum of 10 tags are allowed`: func(s *vsphereProviderSpec) {
		s.TagIDs = append([]string{"a", "b"}, make([]string, 9)...)
	},
	"tagIDs: Required value: tag ID must be in the format of urn:vmomi:InventoryServiceTag:<UUID>:GLOBAL": func(s *vsphereProviderSpec) {
		s.TagIDs = []string{"region"}
	},
	"disks: Invalid value: 30: data disk count must not exceed 29": func(s *vsphereProviderSpec) {
		s.DataDisks = make([]machinev1beta1.VSphereDisk, 30)
	},
	"disks[0].name: Required value: data disk name must be set, providerSpec.disks[0].sizeGiB: Required value: data disk size must be set]": func(
		s *vsphereProviderSpec,
	) {
		s.DataDisks = make([]machinev1beta1.VSphereDisk, 1)
	},
	"disks[1].name: Invalid value: 81: data disk name must not exceed 80": func(s *vsphereProviderSpec) {
		s.DataDisks = []machinev1beta1.VSphereDisk{{Name: "a", SizeGiB: 1}, {Name: strings.Repeat("b", 81), SizeGiB: 1}}
	},
	`disks[0].name: Invalid value: "_a": data disk name must consist only of alphanumeric characters`: func(s *vsphereProviderSpec) {
		s.DataDisks = []machinev1beta1.VSphereDisk{{Name: "_a", SizeGiB: 1}}
	},
	"numCPUs: Invalid value: must not be negative":                   func(s *vsphereProviderSpec) { s.NumCPUs = -1 },
	"diskGiB: Invalid value: must not be negative":                   func(s *vsphereProviderSpec) { s.DiskGiB = -1 },
	"cloneMode: Unsupported value: must be fullClone or linkedClone": func(s *vsphereProviderSpec) { s.CloneMode = "instantClone" },
	"network.devices: Too many: at most 10 addresses, pools and namese": func(s *vsphereProviderSpec) {
		s.Network.Devices[0].IPAddrs = make([]string, 11)
	},
	"disks[0].sizeGiB: Invalid value: 16385: data disk size (GiB) must not exceed 16384": func(s *vsphereProviderSpec) {
		s.DataDisks = []machinev1beta1.VSphereDisk{{Name: "a", SizeGiB: 16385}}
	},
}

// TestPolicy_VSphere: the API server denies a VSphereMachineProviderSpec that cannot work, of a MachineSet and of a Machine, with the texts of
// machine-api-operator.
func TestPolicy_VSphere(t *testing.T) {
	w := besideOthers(t)
	ask := func(object client.Object) error { return w.Client.Create(t.Context(), object, client.DryRunAll) }
	for want, change := range vsphereDenials {
		for _, apiVersion := range []string{"machine.openshift.io/v1beta1", "vsphereprovider.openshift.io/v1"} {
			value := vsphereSpec(t, func(s *vsphereProviderSpec) {
				s.APIVersion = apiVersion
				change(s)
			})
			for _, object := range []client.Object{vsphereSet(value), vsphereMachine(value)} {
				w.Eventually(fmt.Sprintf("%T with %s", object, want), func() error {
					// A policy is in force a moment after it is made.
					if err := ask(object); err == nil || !strings.Contains(err.Error(), "providerSpec."+want) {
						return fmt.Errorf("the answer is %w", err)
					}
					return nil
				})
			}
		}
	}
	secrets := vsphereSpec(t, nil)
	secrets["userDataSecret"], secrets["credentialsSecret"] = map[string]any{}, map[string]any{"name": ""}
	const both = "[providerSpec.userDataSecret.name: Required value: name must be provided, " +
		"providerSpec.credentialsSecret.name: Required value: name must be provided]"
	if err := ask(vsphereSet(secrets)); err == nil || !strings.Contains(err.Error(), both) {
		t.Errorf("Secrets without names: %v", err)
	}
	other := vsphereSpec(t, nil)
	other["kind"], other["template"] = "AnotherProviderSpec", ""
	for name, value := range map[string]map[string]any{"valid": vsphereSpec(t, nil), "of another provider": other} {
		if err := ask(vsphereSet(value)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// vsphereTypes are fields with wrong types or names, as merge patches of a providerSpec, and what the API server says of them behind "providerSpec.".
var vsphereTypes = map[string]string{
	`{"memoryMiB": "16384"}`:                                                "memoryMiB: Invalid value: must be an integer",
	`{"numCPUs": 4.5}`:                                                      "numCPUs: Invalid value: must be an integer",
	`{"numCPUs": 3000000000}`:                                               "numCPUs: Invalid value: must not exceed 2147483647",
	`{"template": 9, "diskGiB": true}`:                                      "diskGiB: Invalid value: must be an integer, providerSpec.template: ",
	`{"tagIDs": "urn:vmomi:InventoryServiceTag:a"}`:                         "tagIDs: Invalid value: must be a list of strings",
	`{"tagIDs": [1]}`:                                                       "tagIDs: Invalid value: must be a list of strings",
	`{"network": {"devices": [{"networkName": 1244}]}}`:                     "network.devices[0].networkName: Invalid value: must be a string",
	`{"network": {"devices": "nodes"}}`:                                     "network.devices: Invalid value: must be a list of objects",
	`{"network": {"devices": [null]}}`:                                      "network.devices: Invalid value: must be a list of objects",
	`{"network": {"devices": [{"addressesFromPools": [{"name": 1}]}]}}`:     "network.devices[0].addressesFromPools: Invalid value: must be a list",
	`{"network": ["nodes"]}`:                                                "network: Invalid value: must be an object",
	`{"workspace": "vcenter"}`:                                              "workspace: Invalid value: must be an object",
	`{"workspace": {"folder": 1}}`:                                          "workspace.folder: Invalid value: must be a string",
	`{"dataDisks": [{"name": "a", "sizeGiB": "1"}]}`:                        "dataDisks[0].sizeGiB: Invalid value: must be an integer",
	`{"dataDisks": [1]}`:                                                    "dataDisks: Invalid value: must be a list of objects",
	`{"userDataSecret": {"name": 1}}`:                                       "userDataSecret.name: Invalid value: must be a string",
	`{"credentialsSecret": "vsphere-cloud-credentials"}`:                    "credentialsSecret: Invalid value: must be an object",
	`{"cloneMode": 1}`:                                                      "cloneMode: Invalid value: must be a string",
	`{"Template": "another"}`:                                               "Template: Duplicate value: the field is there with another case, too",
	`{"memorymib": "16384", "memoryMiB": null}`:                             "memorymib: Invalid value: must be an integer",
	`{"template": null, "TEMPLATE": ""}`:                                    "template: Required value: template must be provided",
	`{"workspace": null, "Workspace": {"Server": ""}}`:                      "workspace.server: Required value: server must be provided",
	`{"workspace": {"folder": null, "Folder": "nodes"}}`:                    `workspace.folder: Invalid value: "nodes": folder must be absolute path`,
	`{"datadisks": [{"Name": "a", "sizegib": 16385}]}`:                      "disks[0].sizeGiB: Invalid value: 16385: data disk size (GiB) must",
	`{"numCPUs": null, "numcpus": -1}`:                                      "numcpus: Invalid value: must not be negative",
	`{"tagids": ["region"]}`:                                                "tagIDs: Required value: tag ID must be in the format",
	`{"network": null, "Network": {"Devices": [{"NetworkName": "n"}, {}]}}`: "network.devices[1].networkName: Required value: networkName must be",
}

// TestPolicy_VSphereTypes: a denial names the field that has a wrong type, and fields count without regard to their case, as Drover reads them.
func TestPolicy_VSphereTypes(t *testing.T) {
	w := besideOthers(t)
	ask := func(patch string) error {
		base, err := json.Marshal(vsphereSpec(t, func(s *vsphereProviderSpec) { s.NumCPUs = 4 }))
		if err == nil {
			base, err = jsonpatch.MergePatch(base, []byte(patch))
		}
		if err != nil {
			t.Fatal(err)
		}
		set := vsphereSet(nil)
		set.Spec.Template.Spec.ProviderSpec.Value.Raw = base
		return w.Client.Create(t.Context(), set, client.DryRunAll)
	}
	for patch, want := range vsphereTypes {
		w.Eventually("it is denied to write "+patch, func() error {
			if err := ask(patch); err == nil || !strings.Contains(err.Error(), "providerSpec."+want) {
				return fmt.Errorf("the answer is %w", err)
			}
			return nil
		})
	}
	for _, patch := range []string{
		`{"numCPUs": null, "numcpus": 4, "memoryMiB": null, "memorymib": 16384}`, `{"diskType": 5}`,
		`{"Workspace": {"Server": "vcenter", "resourcepool": "p"}, "workspace": null}`,
	} {
		if err := ask(patch); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// TestPolicy_VSphereLarge: a providerSpec with as much of everything as there may be, and with many unknown fields, does not cost the API server more
// than
// it grants a policy.
func TestPolicy_VSphereLarge(t *testing.T) {
	w := besideOthers(t)
	value := vsphereSpec(t, func(s *vsphereProviderSpec) {
		device := s.Network.Devices[0]
		for i := range 10 {
			device.IPAddrs = append(device.IPAddrs, fmt.Sprintf("10.0.0.%d/24", i))
			device.AddressesFromPools = append(device.AddressesFromPools, machinev1beta1.AddressesFromPool{Group: "g", Resource: "r", Name: "n"})
		}
		s.Network.Devices = slices.Repeat([]machinev1beta1.NetworkDeviceSpec{device}, 10)
		s.DataDisks = slices.Repeat([]machinev1beta1.VSphereDisk{{Name: strings.Repeat("d", 80), SizeGiB: 16384, ProvisioningMode: "Thin"}}, 29)
		s.TagIDs = slices.Repeat([]string{"urn:vmomi:InventoryServiceTag:00000000-0000-4000-8000-000000000000:GLOBAL"}, 10)
	})
	for i := range 1000 {
		value[fmt.Sprintf("unknown-field-%d", i)] = i
	}
	// On a busy machine an answer may take longer than the API server waits for its policies.
	w.Eventually("the API server accepts a large MachineSet", func() error {
		return w.Client.Create(t.Context(), vsphereSet(value), client.DryRunAll)
	})
	disks, _ := value["dataDisks"].([]any)
	value["dataDisks"] = append(disks[:28:28], map[string]any{"name": "a", "sizeGiB": "1"})
	w.Eventually("the policy is in force", func() error {
		err := w.Client.Create(t.Context(), vsphereSet(value), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "providerSpec.dataDisks[28].sizeGiB: Invalid value: must be an integer") {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}

// warnings are the warnings from the API server.
type warnings struct {
	mu   sync.Mutex
	text string
}

// HandleWarningHeaderWithContext records a warning.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text += text + "\n"
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.text
	w.text = ""
	return text
}

const (
	fewCPUs    = " is missing or less than the minimum value (2): nodes may not boot correctly"
	fewMemory  = " is missing or less than the recommended minimum value (2048): nodes may not boot correctly"
	smallDisk  = " is missing or less than the recommended minimum (120): nodes may fail to start if disk size is too low"
	ignored    = "linkedClone clone mode is set. DiskGiB parameter will be ignored, disk size from template will be used."
	datacenter = "providerSpec.workspace.datacenter: datacenter is unset: if more than one datacenter is present, VMs cannot be created"
)

// vsphereWarnings are what the API server warns of, and what brings it about.
var vsphereWarnings = map[string]func(*vsphereProviderSpec){
	"providerSpec.numCPUs: 1" + fewCPUs:        func(s *vsphereProviderSpec) { s.NumCPUs = 1 },
	"providerSpec.numCPUs: 0" + fewCPUs:        func(s *vsphereProviderSpec) { s.NumCPUs = 0 },
	"providerSpec.memoryMiB: 1024" + fewMemory: func(s *vsphereProviderSpec) { s.MemoryMiB = 1024 },
	"providerSpec.diskGiB: 1" + smallDisk:      func(s *vsphereProviderSpec) { s.DiskGiB = 1 },
	ignored:                                    func(s *vsphereProviderSpec) { s.CloneMode, s.DiskGiB = machinev1beta1.LinkedClone, 120 },
	datacenter:                                 func(s *vsphereProviderSpec) { s.Workspace.Datacenter, s.Workspace.Folder = "", "" },
}

// TestPolicy_VSphereWarnings: the API server warns of a VSphereMachineProviderSpec that may not work, with the texts of machine-api-operator.
func TestPolicy_VSphereWarnings(t *testing.T) {
	w := besideOthers(t)
	seen := &warnings{}
	config := rest.CopyConfig(env.Admin())
	config.WarningHandlerWithContext = seen
	warned, err := client.New(config, client.Options{Scheme: w.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(change func(*vsphereProviderSpec)) string {
		t.Helper()
		for _, object := range []client.Object{vsphereSet(vsphereSpec(t, change)), vsphereMachine(vsphereSpec(t, change))} {
			if err := warned.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
		}
		return seen.take()
	}
	for want, change := range vsphereWarnings {
		w.Eventually("the API server warns: "+want, func() error {
			// A policy is in force a moment after it is made.
			if got := ask(change); strings.Count(got, want) != 2 {
				return fmt.Errorf("the warnings are %q", got)
			}
			return nil
		})
	}
	valid := func(s *vsphereProviderSpec) { s.NumCPUs, s.MemoryMiB, s.DiskGiB = 2, 2048, 120 }
	if got := ask(valid); got != "" {
		t.Errorf("of what is as it should be, it warns: %s", got)
	}
	value := vsphereSpec(t, valid)
	delete(value, "numCPUs")
	value["numcpus"], value["diskType"], value["metadata"], value["Workspace"] = 2, "thin", map[string]any{}, map[string]any{
		"server": "vcenter.example.com", "Datacenter": "dc", "resourcepool": "/dc/host/c/Resources", "cluster": "c",
	}
	delete(value, "workspace")
	value["network"] = map[string]any{"devices": []any{map[string]any{"networkName": "n", "macAddr": "x"}}}
	if err := warned.Create(t.Context(), vsphereMachine(value), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	const unknown = "providerSpec.diskType, providerSpec.workspace.cluster, providerSpec.network.devices[0].macAddr: unknown field, which has no effect"
	if got := seen.take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, unknown) {
		t.Errorf("of unknown fields, it warns: %s", got)
	}
}

// TestPolicy_VSphereNull: what a manifest leaves blank is null, and counts as not set.
func TestPolicy_VSphereNull(t *testing.T) {
	w := besideOthers(t)
	value := vsphereSpec(t, nil)
	for _, key := range []string{"numCPUs", "numCoresPerSocket", "memoryMiB", "diskGiB", "cloneMode", "snapshot"} {
		value[key] = nil
	}
	workspace, ok := value["workspace"].(map[string]any)
	if !ok {
		t.Fatalf("the workspace is %v", value["workspace"])
	}
	workspace["folder"], workspace["vmGroup"], workspace["resourcePool"] = nil, nil, nil
	if err := w.Client.Create(t.Context(), vsphereSet(value), client.DryRunAll); err != nil {
		t.Error(err)
	}
	workspace["server"] = nil
	w.Eventually("a vCenter is demanded", func() error {
		err := w.Client.Create(t.Context(), vsphereSet(value), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "server must be provided") {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
}

// TestPolicy_VSphereServer: the vCenter of a Machine stays, and so does its provider, also while it is being deleted; nothing else of a Machine is
// denied because of it.
func TestPolicy_VSphereServer(t *testing.T) {
	w := besideOthers(t)
	machine := vsphereMachine(vsphereSpec(t, nil))
	machine.GenerateName, machine.Name, machine.Finalizers = "", "policy-server", []string{"example.com/kept"}
	w.CreateWithCleanup(machine)
	ask := func(value string, options ...client.PatchOption) error {
		return w.Client.Patch(t.Context(), machine.DeepCopy(), client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"providerSpec":{"value":%s}}}`, value)), options...)
	}
	changes := map[string]string{
		`{"workspace":{"server":"other.example.com"},"numCPUs":8}`: "workspace.server: Forbidden: the vCenter of a Machine cannot be",
		`{"workspace":null}`:                                                            "workspace: Required value: workspace must be provided",
		`{"workspace":{"server":null}}`:                                                 "workspace.server: Required value: server must be provided",
		`{"workspace":{"server":null,"Server":"other.example.com"}}`:                    "workspace.server: Forbidden: the vCenter of a Machine cannot be",
		`{"kind":"KwokMachineProviderSpec"}`:                                            "kind: Forbidden: the provider of a Machine cannot be changed",
		`{"apiVersion":"other/v1"}`:                                                     "kind: Forbidden: the provider of a Machine cannot be changed",
		`{"kind":"KwokMachineProviderSpec","workspace":{"server":"other.example.com"}}`: "Forbidden",
		`null`: "kind: Forbidden: the provider of a Machine cannot be changed",
	}
	check := func() {
		t.Helper()
		for value, want := range changes {
			w.Eventually("it is denied to change it to "+value, func() error {
				if err := ask(value, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
					return fmt.Errorf("the answer is %w", err)
				}
				return nil
			})
		}
		for _, value := range []string{
			`{"workspace":{"server":"vcenter.example.com"},"numCPUs":8}`, `{"workspace":{"server":null,"SERVER":"vcenter.example.com"}}`,
		} {
			if err := ask(value, client.DryRunAll); err != nil {
				t.Error(err)
			}
		}
	}
	check()
	if err := w.Client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	check()
	w.Merge(machine, `{"metadata":{"finalizers":null}}`)
}

// vsphereSpec returns a providerSpec as it is written.
func vsphereSpec(t *testing.T, change func(*vsphereProviderSpec)) map[string]any {
	t.Helper()
	spec := (&vcenter.Site{Host: "vcenter.example.com"}).ProviderSpec()
	if change != nil {
		change(spec)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatal(err)
	}
	if change == nil {
		return value
	}
	// A user leaves out what the Go type writes as empty.
	for key, field := range value {
		if field == nil {
			delete(value, key)
		}
	}
	return value
}

func vsphereSet(value map[string]any) *machinev1beta1.MachineSet {
	labels := map[string]string{cluster.MachineSetLabel: "virtual"}
	set := &machinev1beta1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, GenerateName: "virtual-"},
		Spec: machinev1beta1.MachineSetSpec{
			Replicas: new(int32(0)), Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: machinev1beta1.MachineTemplateSpec{ObjectMeta: machinev1beta1.ObjectMeta{Labels: labels}},
		},
	}
	set.Spec.Template.Spec.ProviderSpec.Value = rawOf(value)
	return set
}

func vsphereMachine(value map[string]any) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, GenerateName: "virtual-"}}
	machine.Spec.ProviderSpec.Value = rawOf(value)
	return machine
}

func rawOf(value map[string]any) *runtime.RawExtension {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return &runtime.RawExtension{Raw: raw}
}
