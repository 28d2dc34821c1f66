package vsphere

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// minHardware is the least hardware version of a template that Kubernetes nodes run on.
const minHardware = 15

// noHardware begins the error of a template whose hardware version is not known, in machine-api-operator's words.
const noHardware = "Unable to detect machine template HW version"

const hardwareURL = "https://docs.openshift.com/container-platform/latest/updating/updating_a_cluster/" +
	"updating-hardware-on-nodes-running-on-vsphere.html"

// cloneInput is what a clone is made of.
type cloneInput struct {
	machine  *machinev1beta1.Machine
	spec     *machinev1beta1.VSphereMachineProviderSpec
	template *vcenter.Template
	place    *vcenter.Place
	// networks are the backings of the network cards, in order.
	networks []types.BaseVirtualDeviceBackingInfo
	extra    map[string]string
}

// cloneSpec returns the request for the vCenter. The instance UUID is the Machine's UID, so that Drover finds the virtual machine again.
func cloneSpec(in *cloneInput) (*types.VirtualMachineCloneSpec, error) {
	if err := checkHardware(in.machine.Name, in.template); err != nil {
		return nil, err
	}
	location := types.VirtualMachineRelocateSpec{
		Folder: &in.place.Folder, Datastore: &in.place.Datastore, Pool: &in.place.Pool,
		DiskMoveType: string(types.VirtualMachineRelocateDiskMoveOptionsMoveAllDiskBackingsAndConsolidate),
	}
	snapshot, err := snapshotOf(in.spec, in.template)
	if err != nil {
		return nil, err
	}
	config := &types.VirtualMachineConfigSpec{
		Annotation: in.machine.Name, InstanceUuid: string(in.machine.UID),
		Flags:   &types.VirtualMachineFlagInfo{DiskUuidEnabled: types.NewBool(true)},
		NumCPUs: in.spec.NumCPUs, NumCoresPerSocket: cores(in.spec), MemoryMB: in.spec.MemoryMiB,
	}
	for _, key := range slices.Sorted(maps.Keys(in.extra)) {
		config.ExtraConfig = append(config.ExtraConfig, &types.OptionValue{Key: key, Value: in.extra[key]})
	}
	if snapshot != nil {
		location.DiskMoveType = string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
	}
	disks, err := diskChanges(in, snapshot != nil)
	if err != nil {
		return nil, err
	}
	config.DeviceChange = slices.Concat(disks, networkChanges(in))
	return &types.VirtualMachineCloneSpec{Location: location, Config: config, Snapshot: snapshot}, nil
}

// checkHardware refuses templates whose virtual hardware is too old.
func checkHardware(name string, template *vcenter.Template) error {
	if template.Version == "" {
		// The vCenter has not said, which may change.
		return fmt.Errorf("%s for machine '%s': the vCenter does not report it", noHardware, name)
	}
	version, err := strconv.Atoi(strings.TrimPrefix(template.Version, "vmx-"))
	if err != nil {
		return provider.InvalidConfiguration("%s for machine '%s': can not extract hardware version from version string: %s, format unknown",
			noHardware, name, template.Version)
	}
	if version < minHardware {
		return provider.InvalidConfiguration("Hardware lower than %d is not supported, clone stopped. Detected machine template version is %d. "+
			"Please update machine template: %s", minHardware, version, hardwareURL)
	}
	return nil
}

// snapshotOf returns what a linked clone is linked to; nil for a full clone. A template without snapshots is cloned in full.
func snapshotOf(spec *machinev1beta1.VSphereMachineProviderSpec, template *vcenter.Template) (*types.ManagedObjectReference, error) {
	switch snapshot, found := template.Snapshots[spec.Snapshot]; {
	case !isLinked(spec, template):
		return nil, nil
	case spec.Snapshot == "":
		return template.Current, nil
	case found:
		return &snapshot, nil
	}
	return nil, provider.InvalidConfiguration("providerSpec.snapshot: the template has no snapshot %q", spec.Snapshot)
}

// isLinked reports whether clones are linked to a snapshot.
func isLinked(spec *machinev1beta1.VSphereMachineProviderSpec, template *vcenter.Template) bool {
	return spec.CloneMode == machinev1beta1.LinkedClone && (len(template.Snapshots) > 0 || template.Current != nil)
}

// cloneNote returns what a user should know about a clone; empty for nothing.
func cloneNote(spec *machinev1beta1.VSphereMachineProviderSpec, template *vcenter.Template) string {
	if spec.CloneMode == machinev1beta1.LinkedClone && !isLinked(spec, template) {
		return "as a full clone, because the template has no snapshot that a linked clone could be linked to"
	}
	return ""
}

// diskChanges grows the disk of the template and adds the data disks.
func diskChanges(in *cloneInput, linked bool) (changes []types.BaseVirtualDeviceConfigSpec, err error) {
	disks := in.template.Devices.SelectByType((*types.VirtualDisk)(nil))
	if len(disks) != 1 {
		return nil, fmt.Errorf("invalid disk count: %d", len(disks))
	}
	system, ok := disks[0].(*types.VirtualDisk)
	if !ok {
		return nil, fmt.Errorf("the disk of template %s is a %T", in.spec.Template, disks[0])
	}
	if wanted := int64(in.spec.DiskGiB) << 20; wanted > 0 && !linked {
		if wanted < system.CapacityInKB {
			return nil, provider.InvalidConfiguration("error getting disk spec for %q: can't resize template disk down, "+
				"initial capacity is larger: %dKiB > %dKiB", in.spec.Snapshot, system.CapacityInKB, wanted)
		}
		if wanted > system.CapacityInKB {
			grown := *system
			grown.CapacityInKB, grown.CapacityInBytes = wanted, wanted<<10
			changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationEdit, Device: &grown})
		}
	}
	units := freeUnits(in.template.Devices, system.ControllerKey)
	for i := range in.spec.DataDisks {
		if i >= len(units) {
			return nil, provider.InvalidConfiguration("all unit numbers are already in-use: "+
				"the disk controller of the template has no place for data disk %q", in.spec.DataDisks[i].Name)
		}
		changes = append(changes, dataDisk(&in.spec.DataDisks[i], int32(-100-i), system.ControllerKey, units[i]))
	}
	return changes, nil
}

// unitsOfController is how many devices a disk controller has places for. Its own unit is not one of them.
const unitsOfController = 30

// freeUnits returns the places of a disk controller that no device of the template has.
func freeUnits(devices object.VirtualDeviceList, controller int32) (free []int32) {
	used := map[int32]bool{}
	for _, device := range devices {
		common := device.GetVirtualDevice()
		if common.ControllerKey == controller && common.UnitNumber != nil {
			used[*common.UnitNumber] = true
		}
		if scsi, ok := device.(types.BaseVirtualSCSIController); ok && common.Key == controller {
			used[scsi.GetVirtualSCSIController().ScsiCtlrUnitNumber] = true
		}
	}
	for unit := range int32(unitsOfController) {
		if !used[unit] {
			free = append(free, unit)
		}
	}
	return free
}

func dataDisk(disk *machinev1beta1.VSphereDisk, key, controller, unit int32) types.BaseVirtualDeviceConfigSpec {
	backing := &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent)}
	switch disk.ProvisioningMode {
	case machinev1beta1.ProvisioningModeThin:
		backing.ThinProvisioned = types.NewBool(true)
	case machinev1beta1.ProvisioningModeThick:
		backing.ThinProvisioned = types.NewBool(false)
	case machinev1beta1.ProvisioningModeEagerlyZeroed:
		backing.ThinProvisioned, backing.EagerlyScrub = types.NewBool(false), types.NewBool(true)
	}
	return &types.VirtualDeviceConfigSpec{
		Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: types.VirtualDeviceConfigSpecFileOperationCreate,
		Device: &types.VirtualDisk{
			VirtualDevice: types.VirtualDevice{Key: key, ControllerKey: controller, UnitNumber: &unit, Backing: backing},
			CapacityInKB:  int64(disk.SizeGiB) << 20, CapacityInBytes: int64(disk.SizeGiB) << 30,
		},
	}
}

// networkChanges replaces the network cards of the template.
func networkChanges(in *cloneInput) (changes []types.BaseVirtualDeviceConfigSpec) {
	for _, card := range in.template.Devices.SelectByType((*types.VirtualEthernetCard)(nil)) {
		changes = append(changes, &types.VirtualDeviceConfigSpec{Operation: types.VirtualDeviceConfigSpecOperationRemove, Device: card})
	}
	for i, backing := range in.networks {
		changes = append(changes, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd,
			Device: &types.VirtualVmxnet3{VirtualVmxnet: types.VirtualVmxnet{VirtualEthernetCard: types.VirtualEthernetCard{
				VirtualDevice: types.VirtualDevice{
					Key: int32(-200 - i), Backing: backing,
					Connectable: &types.VirtualDeviceConnectInfo{StartConnected: true, AllowGuestControl: true, Connected: true},
				},
				AddressType: string(types.VirtualEthernetCardMacTypeGenerated),
			}}},
		})
	}
	return changes
}
