package vcenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Disk is a virtual disk that is attached to a virtual machine.
type Disk struct {
	// Key identifies it in its virtual machine.
	Key int32
	// File is its datastore path; empty if the disk is not in a file.
	File string
	// IsVolume reports that it has an identity of its own, as volumes have. The vCenter may have moved its file beside the virtual machine's.
	IsVolume bool
}

// Disks are the disks of a virtual machine.
type Disks struct {
	// File is the datastore path of the configuration of the virtual machine.
	File string
	// All are the disks that are attached.
	All []Disk
}

// errNoConfiguration is the error of a virtual machine whose disks are not known: its files may be inaccessible.
var errNoConfiguration = errors.New("the vCenter does not report its configuration")

// diskReads read the disks of virtual machines. One call reads several virtual machines.
type diskReads struct {
	*batches[types.ManagedObjectReference]

	mu    sync.Mutex
	found map[types.ManagedObjectReference]*Disks
}

func newDiskReads(v *VCenter) *diskReads {
	reads := &diskReads{found: map[types.ManagedObjectReference]*Disks{}}
	reads.batches = newBatches(v.clock, func(
		ctx context.Context, _ types.ManagedObjectReference, refs []types.ManagedObjectReference,
	) (failed map[types.ManagedObjectReference]error, err error) {
		err = v.brief(ctx, func(ctx context.Context, current *login) error {
			failed, err = reads.read(ctx, current, v.index, refs)
			return err
		})
		return failed, err
	})
	return reads
}

// read reads the disks of virtual machines. If a virtual machine is gone, only its own read fails, and it is dropped from the index.
func (r *diskReads) read(
	ctx context.Context, current *login, index *Index, refs []types.ManagedObjectReference,
) (map[types.ManagedObjectReference]error, error) {
	failed, found := map[types.ManagedObjectReference]error{}, []mo.VirtualMachine(nil)
	for len(refs) > 0 {
		found = nil
		err := property.DefaultCollector(current.client).Retrieve(ctx, refs, []string{"config.hardware.device", "config.files"}, &found)
		var gone *types.ManagedObjectNotFound
		if _, isGone := fault.As(err, &gone); isGone && gone != nil && slices.Contains(refs, gone.Obj) {
			failed[gone.Obj] = err
			index.forget(gone.Obj)
			refs = slices.DeleteFunc(refs, func(ref types.ManagedObjectReference) bool { return ref == gone.Obj })
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the disks of virtual machines: %w", err)
		}
		break
	}
	r.keep(found, refs, failed)
	return failed, nil
}

// keep keeps what was found of virtual machines, and records which were not found.
func (r *diskReads) keep(found []mo.VirtualMachine, refs []types.ManagedObjectReference, failed map[types.ManagedObjectReference]error) {
	for _, ref := range refs {
		failed[ref] = errNoConfiguration
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range found {
		if config := found[i].Config; config != nil {
			r.found[found[i].Self] = disksOf(config)
			delete(failed, found[i].Self)
		}
	}
}

func disksOf(config *types.VirtualMachineConfigInfo) *Disks {
	disks := &Disks{File: config.Files.VmPathName}
	for _, device := range object.VirtualDeviceList(config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil)) {
		disk := Disk{Key: device.GetVirtualDevice().Key}
		if backing, ok := device.GetVirtualDevice().Backing.(types.BaseVirtualDeviceFileBackingInfo); ok {
			disk.File = backing.GetVirtualDeviceFileBackingInfo().FileName
		}
		if virtual, ok := device.(*types.VirtualDisk); ok {
			disk.IsVolume = virtual.VDiskId != nil && virtual.VDiskId.Id != ""
		}
		disks.All = append(disks.All, disk)
	}
	return disks
}

// Disks reads the disks that are attached to a virtual machine. Reads for several virtual machines at about the same time share one call.
func (v *VCenter) Disks(ctx context.Context, vm *VM) (*Disks, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*v.limits.Call)
	defer cancel()
	if err := v.disks.do(ctx, types.ManagedObjectReference{}, vm.Ref); err != nil {
		return nil, fmt.Errorf("reading the disks of virtual machine %s: %w", vm.Name, err)
	}
	v.disks.mu.Lock()
	defer v.disks.mu.Unlock()
	found := v.disks.found[vm.Ref]
	delete(v.disks.found, vm.Ref)
	if found == nil {
		return nil, fmt.Errorf("reading the disks of virtual machine %s: %w", vm.Name, errNoConfiguration)
	}
	return found, nil
}
