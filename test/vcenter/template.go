package vcenter

import (
	"errors"
	"fmt"
	"time"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// hardware is the version of the virtual hardware of the template.
const hardware = "vmx-19"

// template is a virtual machine whose clones get what the caller asks for. The simulator's own clones do not, because the simulator changes a copy
// that it drops: https://github.com/vmware/govmomi/blob/v0.52.0/simulator/virtual_machine.go#L2499
type template struct {
	*simulator.VirtualMachine
	server *Server
}

// createTemplate makes a template of the only virtual machine.
func (s *Server) createTemplate() error {
	registry := s.model.Map()
	vm, ok := registry.Any("VirtualMachine").(*simulator.VirtualMachine)
	if !ok {
		return errors.New("the inventory has no virtual machine to make a template of")
	}
	vm.Name, vm.Config.Name, vm.Summary.Config.Name = Template, Template, Template
	vm.Config.Version, vm.Config.Template, vm.Summary.Config.Template = hardware, true, true
	vm.Runtime.PowerState, vm.Summary.Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff, types.VirtualMachinePowerStatePoweredOff
	snapshot := func(name string) types.ManagedObjectReference {
		return types.ManagedObjectReference{Type: "VirtualMachineSnapshot", Value: "snapshot-" + name}
	}
	current := snapshot(CurrentSnapshot)
	vm.Snapshot = &types.VirtualMachineSnapshotInfo{
		CurrentSnapshot: &current,
		RootSnapshotList: []types.VirtualMachineSnapshotTree{{
			Name: Snapshot, Snapshot: snapshot(Snapshot), Vm: vm.Self,
			ChildSnapshotList: []types.VirtualMachineSnapshotTree{{Name: CurrentSnapshot, Snapshot: current, Vm: vm.Self}},
		}},
	}
	registry.Put(&template{VirtualMachine: vm, server: s})
	cluster, ok := registry.Any("ClusterComputeResource").(*simulator.ClusterComputeResource)
	if !ok {
		return errors.New("the inventory has no cluster")
	}
	if config, ok := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx); ok {
		config.Group = append(config.Group, &types.ClusterVmGroup{ClusterGroupInfo: types.ClusterGroupInfo{Name: VMGroup}})
	}
	return nil
}

// creator is a folder that virtual machines are created in.
type creator interface {
	CreateVMTask(ctx *simulator.Context, request *types.CreateVM_Task) soap.HasFault
}

// CloneVMTask clones the template. Clones in a vCenter run at the same time, but the simulator's own clones hold the lock of their template.
func (t *template) CloneVMTask(ctx *simulator.Context, request *types.CloneVM_Task) soap.HasFault {
	task := simulator.CreateTask(t.VirtualMachine, "cloneVm", nil)
	task.Info.State = types.TaskInfoStateRunning
	ref := ctx.Map.Put(task).Reference()
	own := background(ctx)
	go func() {
		behavior := t.server.beginClone(request.Name, requestOf(&request.Spec))
		time.Sleep(behavior.Delay)
		for t.server.isHeld(request.Name) {
			time.Sleep(heldInterval)
		}
		if isCanceled(own, task) {
			return
		}
		fault := faults[behavior.Fault]
		ended := []types.PropertyChange{{Name: "info.state", Val: types.TaskInfoStateSuccess}}
		var result types.AnyType
		if fault == nil {
			result, fault = t.clone(own, request)
		}
		if fault != nil {
			ended = []types.PropertyChange{
				{Name: "info.error", Val: types.LocalizedMethodFault{Fault: fault, LocalizedMessage: fmt.Sprintf("%T", fault)}},
				{Name: "info.state", Val: types.TaskInfoStateError},
			}
		} else {
			ended = append([]types.PropertyChange{{Name: "info.result", Val: result}}, ended...)
		}
		own.Map.AtomicUpdate(own, task, ended)
	}()
	return &methods.CloneVM_TaskBody{Res: &types.CloneVM_TaskResponse{Returnval: ref}}
}

// heldInterval is how often it is looked whether a clone is held still.
const heldInterval = 20 * time.Millisecond

// requestOf returns what of a request for a clone the simulator does not carry out.
func requestOf(spec *types.VirtualMachineCloneSpec) CloneRequest {
	request := CloneRequest{DiskMoveType: spec.Location.DiskMoveType}
	if spec.Snapshot != nil {
		request.Snapshot = spec.Snapshot.Value
	}
	return request
}

// isCanceled reports whether a task has been canceled.
func isCanceled(ctx *simulator.Context, task *simulator.Task) (canceled bool) {
	ctx.Map.WithLock(ctx, task, func() { canceled = task.Info.Cancelled })
	return canceled
}

func (t *template) clone(ctx *simulator.Context, request *types.CloneVM_Task) (types.AnyType, types.BaseMethodFault) {
	folder, ok := ctx.Map.Get(request.Folder).(creator)
	if !ok || request.Spec.Location.Pool == nil || request.Spec.Config == nil {
		return nil, &types.InvalidArgument{InvalidProperty: "spec"}
	}
	if taken := named(ctx, request.Folder, request.Name); taken != nil {
		return nil, &types.DuplicateName{Name: request.Name, Object: *taken}
	}
	config := *request.Spec.Config
	config.Name, config.Version, config.GuestId = request.Name, t.Config.Version, t.Config.GuestId
	config.Files = &types.VirtualMachineFileInfo{VmPathName: fmt.Sprintf("[%s] %s/%s.vmx", Datastore, request.Name, request.Name)}
	if config.NumCPUs == 0 {
		config.NumCPUs = t.Config.Hardware.NumCPU
	}
	if config.MemoryMB == 0 {
		config.MemoryMB = int64(t.Config.Hardware.MemoryMB)
	}
	config.DeviceChange = t.devices(request.Spec.Config.DeviceChange)
	body, ok := folder.CreateVMTask(ctx, &types.CreateVM_Task{
		This: request.Folder, Config: config, Pool: *request.Spec.Location.Pool, Host: t.Runtime.Host,
	}).(*methods.CreateVM_TaskBody)
	if !ok || body.Res == nil {
		return nil, &types.InvalidArgument{InvalidProperty: "spec"}
	}
	created, ok := ctx.Map.Get(body.Res.Returnval).(*simulator.Task)
	if !ok {
		return nil, &types.InvalidArgument{InvalidProperty: "spec"}
	}
	created.Wait()
	if created.Info.Error != nil {
		return nil, created.Info.Error.Fault
	}
	t.server.endClone()
	return created.Info.Result, nil
}

// named returns the virtual machine in a folder that has a name; nil for none.
func named(ctx *simulator.Context, folder types.ManagedObjectReference, name string) *types.ManagedObjectReference {
	for _, entity := range ctx.Map.All("VirtualMachine") {
		if parent := entity.Entity().Parent; entity.Entity().Name == name && parent != nil && *parent == folder {
			ref := entity.Reference()
			return &ref
		}
	}
	return nil
}

// devices returns the devices of a clone: the disk of the template, as changed, and what the caller adds.
func (t *template) devices(changes []types.BaseVirtualDeviceConfigSpec) (devices []types.BaseVirtualDeviceConfigSpec) {
	for _, device := range object.VirtualDeviceList(t.Config.Hardware.Device).SelectByType((*types.VirtualDisk)(nil)) {
		original, ok := device.(*types.VirtualDisk)
		if !ok {
			continue
		}
		disk := *original
		for _, change := range changes {
			spec := change.GetVirtualDeviceConfigSpec()
			if edited, ok := spec.Device.(*types.VirtualDisk); ok && edited.Key == disk.Key && spec.Operation == types.VirtualDeviceConfigSpecOperationEdit {
				disk.CapacityInKB, disk.CapacityInBytes = edited.CapacityInKB, edited.CapacityInBytes
			}
		}
		disk.Backing = &types.VirtualDiskFlatVer2BackingInfo{DiskMode: string(types.VirtualDiskModePersistent), ThinProvisioned: types.NewBool(true)}
		devices = append(devices, &types.VirtualDeviceConfigSpec{
			Operation: types.VirtualDeviceConfigSpecOperationAdd, FileOperation: types.VirtualDeviceConfigSpecFileOperationCreate, Device: &disk,
		})
	}
	for _, change := range changes {
		if spec := change.GetVirtualDeviceConfigSpec(); spec.Operation == types.VirtualDeviceConfigSpecOperationAdd {
			devices = append(devices, spec)
		}
	}
	return devices
}
