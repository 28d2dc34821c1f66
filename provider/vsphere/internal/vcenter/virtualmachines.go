package vcenter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// NameTakenError is the error of a clone whose name another virtual machine in the folder has.
type NameTakenError struct {
	// Name is that name.
	Name string
	// Err is the fault.
	Err error
}

// Error returns what is wrong.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("the name %s is taken in the folder of the workspace: %v", e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *NameTakenError) Unwrap() error { return e.Err }

// Clone clones a template, and waits until the virtual machine is there. started is called with the task. It runs as one of a bounded number, for
// which it waits until queue ends.
func (v *VCenter) Clone(
	ctx, queue context.Context, template *Template, place *Place, name string, spec *types.VirtualMachineCloneSpec, started func(task string),
) (err error) {
	if err := v.clones.acquire(queue); err != nil {
		return err
	}
	defer func() { v.clones.release(err) }()
	var task types.ManagedObjectReference
	err = v.brief(ctx, func(ctx context.Context, current *login) error {
		response, err := methods.CloneVM_Task(ctx, current.client, &types.CloneVM_Task{
			This: template.Ref, Folder: place.Folder, Name: name, Spec: *spec,
		})
		switch {
		case err == nil:
			task = response.Returnval
		case !soap.IsSoapFault(err) && !soap.IsVimFault(err):
			// The vCenter has not answered, and may have begun, or begin later; then a second request fails, because the name is taken.
			v.former.mayBegin(spec.Config.InstanceUuid, v.limits.Task)
		}
		return err
	})
	if err == nil {
		started(task.Value)
		err = v.awaitClone(ctx, task, spec.Config.InstanceUuid)
	}
	if err == nil {
		v.former.cloned(spec.Config.InstanceUuid)
	}
	v.forgetGone(err)
	if fault.Is(err, &types.DuplicateName{}) {
		return &NameTakenError{Name: name, Err: err}
	}
	return err
}

// awaitClone waits for a clone, and until the index has it. A clone that hangs is canceled.
func (v *VCenter) awaitClone(ctx context.Context, task types.ManagedObjectReference, instanceUUID string) error {
	limited, cancel := context.WithTimeout(ctx, v.limits.Clone)
	defer cancel()
	_, err := v.awaitTask(limited, task, instanceUUID)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		if !v.cancel(ctx, task) {
			// The virtual machine may still appear.
			v.former.mayBegin(instanceUUID, v.limits.Clone)
		}
		return fmt.Errorf("the clone has not ended within %s and was canceled", v.limits.Clone)
	case err != nil && !errors.Is(err, ErrTaskForgotten):
		return err
	}
	limited, cancel = context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	return v.awaitVM(limited, instanceUUID, nil, func(vm *VM) bool { return vm != nil })
}

// cancel cancels a task, and reports whether it has ended without success. A vCenter only asks a task to end, which may take it long.
func (v *VCenter) cancel(ctx context.Context, task types.ManagedObjectReference) bool {
	err := v.brief(ctx, func(ctx context.Context, current *login) error {
		_, err := methods.CancelTask(ctx, current.client, &types.CancelTask{This: task})
		return err
	})
	if err != nil {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, v.limits.Call)
	defer cancel()
	_, err = v.awaitTask(limited, task, "")
	return err != nil && limited.Err() == nil && !errors.Is(err, ErrTaskForgotten)
}

// PowerOff powers a virtual machine off, hard, and waits for that.
func (v *VCenter) PowerOff(ctx context.Context, vm *VM) error {
	return v.bringAbout(ctx, vm, "powering off", func(vm *VM) bool { return vm == nil || vm.State == types.VirtualMachinePowerStatePoweredOff },
		func(ctx context.Context, current *login) (types.ManagedObjectReference, error) {
			response, err := methods.PowerOffVM_Task(ctx, current.client, &types.PowerOffVM_Task{This: vm.Ref})
			if err != nil {
				return types.ManagedObjectReference{}, err
			}
			return response.Returnval, nil
		})
}

// Destroy deletes a virtual machine and its disks, and waits for that.
func (v *VCenter) Destroy(ctx context.Context, vm *VM) error {
	return v.bringAbout(ctx, vm, "destroying", nil,
		func(ctx context.Context, current *login) (types.ManagedObjectReference, error) {
			v.index.setLeaving(vm.Ref)
			response, err := methods.Destroy_Task(ctx, current.client, &types.Destroy_Task{This: vm.Ref})
			if err != nil {
				return types.ManagedObjectReference{}, err
			}
			return response.Returnval, nil
		})
}

// bringAbout starts a task and waits until the virtual machine is as wanted; nil if it is to be gone.
func (v *VCenter) bringAbout(
	ctx context.Context, vm *VM, what string, wanted func(*VM) bool,
	start func(context.Context, *login) (types.ManagedObjectReference, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	var task types.ManagedObjectReference
	err := v.brief(ctx, func(ctx context.Context, current *login) (err error) {
		task, err = start(ctx, current)
		return err
	})
	if err == nil {
		err = v.awaitVM(ctx, vm.InstanceUUID, &task, wanted)
	}
	if wanted == nil && err == nil || isGone(err, vm.Ref) {
		// The collector may be late.
		v.index.forget(vm.Ref)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s virtual machine %s: %w", what, vm.Name, err)
	}
	return nil
}

// IsGone asks the vCenter whether a virtual machine in the index is gone, and if so removes it from the index. If the vCenter cannot be asked, the
// virtual machine is not gone.
func (v *VCenter) IsGone(ctx context.Context, vm *VM) bool {
	err := v.brief(ctx, func(ctx context.Context, current *login) error {
		var found mo.ManagedEntity
		return property.DefaultCollector(current.client).RetrieveOne(ctx, vm.Ref, []string{"name"}, &found)
	})
	if !isGone(err, vm.Ref) {
		return false
	}
	v.index.forget(vm.Ref)
	return true
}

// Exists asks the vCenter for a virtual machine that the index does not have, by its reference and the UUID of its BIOS: it may exist without being
// shown to this user. One with another UUID, which a vCenter may have that was set up anew, is another one.
func (v *VCenter) Exists(ctx context.Context, reference, uuid string) (found bool, err error) {
	ref := types.ManagedObjectReference{Type: "VirtualMachine", Value: reference}
	err = v.brief(ctx, func(ctx context.Context, current *login) error {
		if found, err = exists(ctx, current, ref); err != nil || !found {
			return err
		}
		var vm mo.VirtualMachine
		err := property.DefaultCollector(current.client).RetrieveOne(ctx, ref, []string{propertyUUID}, &vm)
		if err == nil && vm.Config != nil && !strings.EqualFold(vm.Config.Uuid, uuid) {
			found = false
		}
		return nil
	})
	return found, err
}

// isGone reports whether an error says that an object is gone.
func isGone(err error, ref types.ManagedObjectReference) bool {
	var gone *types.ManagedObjectNotFound
	_, found := fault.As(err, &gone)
	return found && gone != nil && gone.Obj == ref
}

// Detach removes disks from a virtual machine that has a number of them, and keeps their files.
func (v *VCenter) Detach(ctx context.Context, vm *VM, attached int, disks []Disk) error {
	spec := types.VirtualMachineConfigSpec{}
	for _, disk := range disks {
		spec.DeviceChange = append(spec.DeviceChange, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationRemove,
			Device:    &types.VirtualDisk{VirtualDevice: types.VirtualDevice{Key: disk.Key}},
		})
	}
	left := attached - len(disks)
	return v.bringAbout(ctx, vm, "detaching disks of", func(vm *VM) bool { return vm == nil || vm.Disks <= left },
		func(ctx context.Context, current *login) (types.ManagedObjectReference, error) {
			response, err := methods.ReconfigVM_Task(ctx, current.client, &types.ReconfigVM_Task{This: vm.Ref, Spec: spec})
			if err != nil {
				return types.ManagedObjectReference{}, err
			}
			return response.Returnval, nil
		})
}
