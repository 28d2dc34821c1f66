package vsphere

import (
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/conformance"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// cloneCase returns what a clone is made of: a template with a controller, a disk of 16 GiB and a network card.
func cloneCase() *cloneInput {
	unit, controller := int32(0), &types.ParaVirtualSCSIController{}
	controller.Key, controller.ScsiCtlrUnitNumber = 1000, 7
	disk := &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: 2000, ControllerKey: 1000, UnitNumber: &unit}, CapacityInKB: 16 << 20}
	card := &types.VirtualE1000{}
	card.Key = 4000
	machine := conformance.NewMachine("worker-1")
	return &cloneInput{
		machine: machine, spec: validSpec(), place: &vcenter.Place{}, extra: map[string]string{"b": "2", "a": "1"},
		template: &vcenter.Template{
			Version: "vmx-19", Devices: object.VirtualDeviceList{controller, disk, card},
			Snapshots: map[string]types.ManagedObjectReference{"first": {Type: "VirtualMachineSnapshot", Value: "s-1"}},
			Current:   &types.ManagedObjectReference{Type: "VirtualMachineSnapshot", Value: "s-2"},
		},
		networks: []types.BaseVirtualDeviceBackingInfo{&types.VirtualEthernetCardNetworkBackingInfo{}},
	}
}

func TestCloneSpec(t *testing.T) {
	in := cloneCase()
	in.spec.NumCPUs, in.spec.MemoryMiB, in.spec.DiskGiB = 4, 8192, 120
	spec, err := cloneSpec(in)
	if err != nil {
		t.Fatal(err)
	}
	config := spec.Config
	if config.InstanceUuid != string(in.machine.UID) || config.NumCPUs != 4 || config.NumCoresPerSocket != 4 || config.MemoryMB != 8192 ||
		!*config.Flags.DiskUuidEnabled || spec.PowerOn || spec.Snapshot != nil {
		t.Errorf("%+v", spec)
	}
	if len(config.ExtraConfig) != 2 || config.ExtraConfig[0].GetOptionValue().Key != "a" {
		t.Errorf("extra configuration %+v", config.ExtraConfig)
	}
	var changes []string
	for _, change := range config.DeviceChange {
		s := change.GetVirtualDeviceConfigSpec()
		text := fmt.Sprintf("%s %T", s.Operation, s.Device)
		if disk, ok := s.Device.(*types.VirtualDisk); ok {
			text += fmt.Sprintf(" %d GiB unit %d", disk.CapacityInKB>>20, *disk.UnitNumber)
		}
		changes = append(changes, text)
	}
	want := "edit *types.VirtualDisk 120 GiB unit 0, add *types.VirtualDisk 100 GiB unit 1, remove *types.VirtualE1000, add *types.VirtualVmxnet3"
	if got := strings.Join(changes, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCloneSpec_Snapshots(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cloneInput)
		want   string
	}{
		"full clone":                    {func(in *cloneInput) { in.spec.CloneMode = machinev1beta1.FullClone }, ""},
		"the current one":               {func(*cloneInput) {}, "s-2"},
		"by name":                       {func(in *cloneInput) { in.spec.Snapshot = "first" }, "s-1"},
		"a template without a snapshot": {func(in *cloneInput) { in.template.Snapshots, in.template.Current = nil, nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := cloneCase()
			in.spec.CloneMode, in.spec.DiskGiB = machinev1beta1.LinkedClone, 120
			c.change(in)
			spec, err := cloneSpec(in)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if spec.Snapshot != nil {
				got = spec.Snapshot.Value
			}
			isChild := spec.Location.DiskMoveType == string(types.VirtualMachineRelocateDiskMoveOptionsCreateNewChildDiskBacking)
			if got != c.want || isChild != (c.want != "") {
				t.Errorf("snapshot %q, disks %s", got, spec.Location.DiskMoveType)
			}
			if note := cloneNote(in.spec, in.template); (note != "") != (name == "a template without a snapshot") {
				t.Errorf("the note is %q", note)
			}
		})
	}
}

func TestCloneSpec_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*cloneInput)
		want     string
		terminal bool
	}{
		"old hardware": {
			func(in *cloneInput) { in.template.Version = "vmx-13" },
			"Hardware lower than 15 is not supported, clone stopped. Detected machine template version is 13. Please update machine template: https://", true,
		},
		"strange hardware": {
			func(in *cloneInput) { in.template.Version = "vmx" },
			"HW version for machine 'worker-1': can not extract hardware version from version string: vmx, format unknown", true,
		},
		"unknown hardware": {
			func(in *cloneInput) { in.template.Version = "" },
			"Unable to detect machine template HW version for machine 'worker-1': the vCenter does not report", false,
		},
		"a smaller disk": {
			func(in *cloneInput) { in.spec.DiskGiB = 8 },
			"can't resize template disk down, initial capacity is larger: 16777216KiB > 8388608KiB", true,
		},
		"no disk":          {func(in *cloneInput) { in.template.Devices = in.template.Devices[:1] }, "invalid disk count: 0", false},
		"another snapshot": {func(in *cloneInput) { in.spec.CloneMode, in.spec.Snapshot = machinev1beta1.LinkedClone, "x" }, `no snapshot "x"`, true},
		"too many disks": {func(in *cloneInput) {
			in.spec.DataDisks = make([]machinev1beta1.VSphereDisk, 29)
			drive := &types.VirtualCdrom{VirtualDevice: types.VirtualDevice{ControllerKey: 1000, UnitNumber: new(int32(3))}}
			in.template.Devices = append(in.template.Devices, drive)
		}, "all unit numbers are already in-use", true},
	} {
		t.Run(name, func(t *testing.T) {
			in := cloneCase()
			c.change(in)
			_, err := cloneSpec(in)
			isTerminal := provider.ReasonOf(err, "") == machinev1beta1.InvalidConfigurationMachineError
			if err == nil || !strings.Contains(err.Error(), c.want) || isTerminal != c.terminal {
				t.Errorf("terminal %t: %v", isTerminal, err)
			}
		})
	}
}

func TestForeignOf(t *testing.T) {
	disks := &vcenter.Disks{File: "[ds] worker-0/worker-0.vmx", All: []vcenter.Disk{
		{Key: 1, File: "[ds2] worker-1/worker-1.vmdk"}, {Key: 2, File: "[ds2] worker-1/worker-1_1.vmdk"}, {Key: 3, File: "[ds] fcd/7f.vmdk"},
		{Key: 4, File: "[ds] worker-10/worker-10.vmdk"}, {Key: 5, File: ""}, {Key: 6, File: "[ds] kubevols/worker-1.vmdk"},
		// It was called worker-0 once.
		{Key: 7, File: "[ds] worker-0/worker-0_2.vmdk"}, {Key: 8, File: "[ds] worker-0.vmdk"},
		// The storage has moved it.
		{Key: 9, File: "[ds] worker-0/worker-0_3.vmdk", IsVolume: true},
	}}
	var keys []int32
	for _, disk := range foreignOf("worker-1", disks) {
		keys = append(keys, disk.Key)
	}
	if got := fmt.Sprint(keys); got != "[3 4 5 6 8 9]" {
		t.Errorf("the disks of others are %s", got)
	}
}
