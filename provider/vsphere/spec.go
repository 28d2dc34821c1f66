package vsphere

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/provider"
)

const kindSpec = "VSphereMachineProviderSpec"

// groups are the API groups that a providerSpec may have. The version does not matter.
var groups = []string{"machine.openshift.io", "vsphereprovider.openshift.io"}

// kinds are what the provider serves.
func kinds() (kinds []schema.GroupKind) {
	for _, group := range groups {
		kinds = append(kinds, schema.GroupKind{Group: group, Kind: kindSpec})
	}
	return kinds
}

// Defaults of the providerSpec, the same as in machine-api-operator:
// https://github.com/openshift/machine-api-operator/blob/951196122/pkg/webhooks/machine_webhook.go
const (
	defaultUserData    = "worker-user-data"
	defaultCredentials = "vsphere-cloud-credentials" //nolint:gosec // the name of a Secret
)

// Bounds of the providerSpec.
const (
	maxDevices, maxTags, maxDisks = 10, 10, 29
	maxDiskName, maxVMGroup       = 80, 80
	maxDiskGiB                    = 16384
	// maxName is how long a name or an inventory path may be, and maxList how many addresses, pools and nameservers a network device has.
	maxName, maxList = 1024, 10
	maxMemoryMiB     = 1 << 32
)

var (
	tagPattern  = regexp.MustCompile(`^urn:vmomi:InventoryServiceTag:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}:[^:]+$`)
	diskPattern = regexp.MustCompile(`^[a-zA-Z0-9]([-_a-zA-Z0-9]*[a-zA-Z0-9])?$`)
)

// specOf reads the providerSpec of a Machine, with its defaults. The author of a Machine may write anything: what it says is checked by validate.
func specOf(value *machinev1beta1.ProviderSpec) (*machinev1beta1.VSphereMachineProviderSpec, error) {
	spec := &machinev1beta1.VSphereMachineProviderSpec{}
	if value.Value == nil || len(value.Value.Raw) == 0 {
		return nil, provider.InvalidConfiguration("spec.providerSpec.value: it must be a %s of %s", kindSpec, strings.Join(groups, " or "))
	}
	if err := decode(value.Value.Raw, spec); err != nil {
		return nil, provider.InvalidConfiguration("spec.providerSpec.value: %w", err)
	}
	if spec.UserDataSecret == nil {
		spec.UserDataSecret = &corev1.LocalObjectReference{Name: defaultUserData}
	}
	if spec.CredentialsSecret == nil {
		spec.CredentialsSecret = &corev1.LocalObjectReference{Name: defaultCredentials}
	}
	return spec, nil
}

// connectionIn reads only what is needed to connect to the vCenter, from a providerSpec that may be wrong everywhere else; nil if it does not say.
func connectionIn(value *machinev1beta1.ProviderSpec) *machinev1beta1.VSphereMachineProviderSpec {
	if value.Value == nil {
		return nil
	}
	// Values of any type can be decoded into an interface.
	var parts struct {
		Workspace         any `json:"workspace"`
		CredentialsSecret any `json:"credentialsSecret"`
	}
	if err := decode(value.Value.Raw, &parts); err != nil {
		return nil
	}
	// What cannot be read is as what is not there.
	server, secret := textIn(parts.Workspace, "server"), textIn(parts.CredentialsSecret, "name")
	if server == "" {
		return nil
	}
	return &machinev1beta1.VSphereMachineProviderSpec{
		Workspace:         &machinev1beta1.Workspace{Server: server},
		CredentialsSecret: &corev1.LocalObjectReference{Name: cmp.Or(secret, defaultCredentials)},
	}
}

// textIn returns the text of an object's field; empty if there is none.
func textIn(object any, field string) string {
	values, _ := object.(map[string]any)
	text, _ := values[field].(string)
	return text
}

// validate returns the first thing that is wrong with a providerSpec, in the words of machine-api-operator.
func validate(spec *machinev1beta1.VSphereMachineProviderSpec) error {
	if problems := problemsOf(spec); len(problems) > 0 {
		return provider.InvalidConfiguration("%s", strings.Join(problems, "; "))
	}
	return nil
}

func problemsOf(spec *machinev1beta1.VSphereMachineProviderSpec) (problems []string) {
	add := func(wrong bool, path, text string, args ...any) {
		if wrong {
			problems = append(problems, path+": "+fmt.Sprintf(text, args...))
		}
	}
	add(spec.Template == "", "providerSpec.template", "template must be provided")
	if workspace := spec.Workspace; workspace == nil {
		add(true, "providerSpec.workspace", "workspace must be provided")
	} else {
		add(workspace.Server == "", "providerSpec.workspace.server", "server must be provided")
		prefix := fmt.Sprintf("/%s/vm/", workspace.Datacenter)
		add(workspace.Folder != "" && !strings.HasPrefix(workspace.Folder, prefix), "providerSpec.workspace.folder",
			"folder must be absolute path: expected prefix %q", prefix)
		add(len(workspace.VMGroup) > maxVMGroup, "providerSpec.workspace.vmGroup", "vmGroup must be less than %d characters in length", maxVMGroup)
	}
	add(spec.UserDataSecret.Name == "", "providerSpec.userDataSecret.name", "name must be provided")
	add(spec.CredentialsSecret.Name == "", "providerSpec.credentialsSecret.name", "name must be provided")
	for _, name := range namesIn(spec) {
		add(len(name) > maxName, "providerSpec", "a name or path must not have more than %d characters", maxName)
	}
	add(spec.MemoryMiB > maxMemoryMiB, "providerSpec.memoryMiB", "must not exceed %d", int64(maxMemoryMiB))
	add(spec.NumCPUs < 0 || spec.NumCoresPerSocket < 0 || spec.MemoryMiB < 0 || spec.DiskGiB < 0, "providerSpec",
		"numCPUs, numCoresPerSocket, memoryMiB and diskGiB must not be negative")
	add(spec.CloneMode != "" && spec.CloneMode != machinev1beta1.FullClone && spec.CloneMode != machinev1beta1.LinkedClone, "providerSpec.cloneMode",
		"%q is neither %s nor %s", spec.CloneMode, machinev1beta1.FullClone, machinev1beta1.LinkedClone)
	add(len(spec.TagIDs) > maxTags, "providerSpec.tagIDs", "a maximum of %d tags are allowed", maxTags)
	for _, tag := range spec.TagIDs {
		add(!tagPattern.MatchString(tag), "providerSpec.tagIDs", "tag ID must be in the format of urn:vmomi:InventoryServiceTag:<UUID>:GLOBAL")
	}
	return append(append(problems, deviceProblems(spec.Network.Devices)...), diskProblems(spec.DataDisks)...)
}

// namesIn returns what is looked up in the vCenter by its name.
func namesIn(spec *machinev1beta1.VSphereMachineProviderSpec) []string {
	names := []string{spec.Template, spec.Snapshot}
	if w := spec.Workspace; w != nil {
		names = append(names, w.Server, w.Datacenter, w.Folder, w.Datastore, w.ResourcePool)
	}
	for i := range spec.Network.Devices {
		names = append(names, spec.Network.Devices[i].NetworkName)
	}
	return names
}

// parseAddress reads an IP address. One with a zone concerns a single host, and a zone may be any text.
func parseAddress(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	if err == nil && address.Zone() != "" {
		err = fmt.Errorf("%q has a zone", text)
	}
	return address, err
}

func deviceProblems(devices []machinev1beta1.NetworkDeviceSpec) (problems []string) {
	if len(devices) == 0 {
		return []string{"providerSpec.network.devices: at least 1 network device must be provided"}
	}
	if len(devices) > maxDevices {
		return []string{fmt.Sprintf("providerSpec.network.devices: must have at most %d items", maxDevices)}
	}
	for i := range devices {
		path := fmt.Sprintf("providerSpec.network.devices[%d]", i)
		if devices[i].NetworkName == "" {
			problems = append(problems, path+".networkName: networkName must be provided")
		}
		if device := &devices[i]; max(len(device.IPAddrs), len(device.AddressesFromPools), len(device.Nameservers)) > maxList {
			problems = append(problems, fmt.Sprintf("%s: at most %d addresses, pools and nameservers each are allowed", path, maxList))
			continue
		}
		for _, address := range devices[i].IPAddrs {
			if _, err := netip.ParsePrefix(address); err != nil {
				problems = append(problems, fmt.Sprintf("%s.ipAddrs: %v", path, err))
			}
		}
		if gateway := devices[i].Gateway; gateway != "" {
			if _, err := parseAddress(gateway); err != nil {
				problems = append(problems, fmt.Sprintf("%s.gateway: %v", path, err))
			}
		}
		// They become kernel arguments.
		for _, nameserver := range devices[i].Nameservers {
			if _, err := parseAddress(nameserver); err != nil {
				problems = append(problems, fmt.Sprintf("%s.nameservers: %v", path, err))
			}
		}
	}
	return problems
}

func diskProblems(disks []machinev1beta1.VSphereDisk) (problems []string) {
	const path = "providerSpec.disks"
	if len(disks) > maxDisks {
		return []string{fmt.Sprintf("%s: data disk count must not exceed %d", path, maxDisks)}
	}
	modes := []machinev1beta1.ProvisioningMode{
		"", machinev1beta1.ProvisioningModeThin, machinev1beta1.ProvisioningModeThick, machinev1beta1.ProvisioningModeEagerlyZeroed,
	}
	for i := range disks {
		add := func(wrong bool, field, text string, args ...any) {
			if wrong {
				problems = append(problems, fmt.Sprintf("%s[%d]%s: ", path, i, field)+fmt.Sprintf(text, args...))
			}
		}
		disk := &disks[i]
		add(disk.Name == "", ".name", "data disk name must be set")
		add(len(disk.Name) > maxDiskName, ".name", "data disk name must not exceed %d", maxDiskName)
		add(disk.Name != "" && !diskPattern.MatchString(disk.Name), ".name", "data disk name must consist only of alphanumeric characters, "+
			"hyphens and underscores, and must start and end with an alphanumeric character.")
		add(disk.SizeGiB <= 0, ".sizeGiB", "data disk size must be set")
		add(disk.SizeGiB > maxDiskGiB, ".sizeGiB", "data disk size (GiB) must not exceed %d", maxDiskGiB)
		add(!slices.Contains(modes, disk.ProvisioningMode), ".provisioningMode", "%q is none of Thin, Thick, EagerlyZeroed", disk.ProvisioningMode)
	}
	return problems
}

// cores returns the cores of each socket: without numCoresPerSocket there is one socket.
func cores(spec *machinev1beta1.VSphereMachineProviderSpec) int32 {
	return cmp.Or(spec.NumCoresPerSocket, spec.NumCPUs)
}
