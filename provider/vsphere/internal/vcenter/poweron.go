package vcenter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"
)

// powerOns power virtual machines on, with one call for all virtual machines of a datacenter.
type powerOns struct {
	*batches[types.ManagedObjectReference]

	mu sync.Mutex
	// attempts are the tasks of the virtual machines that are being powered on. Each waits for its own, which may take minutes: the next batch of
	// the datacenter does not.
	attempts map[types.ManagedObjectReference]types.ManagedObjectReference
}

func newPowerOns(v *VCenter) *powerOns {
	return &powerOns{batches: newBatches(v.clock, v.powerOn), attempts: map[types.ManagedObjectReference]types.ManagedObjectReference{}}
}

// setAttempt records the task that powers a virtual machine on; nil for none.
func (p *powerOns) setAttempt(vm types.ManagedObjectReference, task *types.ManagedObjectReference) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if task == nil {
		delete(p.attempts, vm)
		return
	}
	p.attempts[vm] = *task
}

// takeAttempt returns the task that powers a virtual machine on, once; nil for none.
func (p *powerOns) takeAttempt(vm types.ManagedObjectReference) *types.ManagedObjectReference {
	p.mu.Lock()
	defer p.mu.Unlock()
	task, found := p.attempts[vm]
	if !found {
		return nil
	}
	delete(p.attempts, vm)
	return &task
}

// PowerOn powers a virtual machine on, with all others of its datacenter that are to be at about the same time.
func (v *VCenter) PowerOn(ctx context.Context, datacenter types.ManagedObjectReference, vm *VM) error {
	ctx, cancel := context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	// A caller that has given up leaves the task of its attempt.
	defer v.powerOns.setAttempt(vm.Ref, nil)
	if err := v.powerOns.do(ctx, datacenter, vm.Ref); err != nil {
		return err
	}
	task := v.powerOns.takeAttempt(vm.Ref)
	if err := v.awaitVM(ctx, vm.InstanceUUID, task, func(vm *VM) bool { return vm == nil || vm.IsOn() }); err != nil {
		return fmt.Errorf("powering on: %w", err)
	}
	return nil
}

// NotAttemptedError is the error of a virtual machine that its cluster does not power on: it has no resources for it.
type NotAttemptedError struct {
	// Message is what the vCenter says.
	Message string
}

// Error returns what is wrong.
func (e *NotAttemptedError) Error() string {
	return "the cluster cannot power the virtual machine on: " + e.Message
}

// powerOn powers virtual machines of a datacenter on. If one of them is at fault, for example because it is gone, the vCenter refuses them all;
// powerOn then tries each alone.
func (v *VCenter) powerOn(
	ctx context.Context, datacenter types.ManagedObjectReference, refs []types.ManagedObjectReference,
) (map[types.ManagedObjectReference]error, error) {
	ctx, cancel := context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	failed, err := v.powerOnTogether(ctx, datacenter, refs)
	if len(refs) == 1 || !isFault(err) {
		return failed, err
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	failed = map[types.ManagedObjectReference]error{}
	for _, ref := range refs {
		group.Go(func() {
			alone, err := v.powerOnTogether(ctx, datacenter, []types.ManagedObjectReference{ref})
			if err == nil {
				err = alone[ref]
			}
			mu.Lock()
			defer mu.Unlock()
			failed[ref] = err
		})
	}
	group.Wait()
	return failed, nil
}

// isFault reports whether the vCenter has refused a call, or a task of it has failed.
func isFault(err error) bool {
	var found types.BaseMethodFault
	_, isOne := fault.As(err, &found) // fault.In panics at an error that unwraps to nil, as that of a name server does
	return isOne
}

// powerOnTogether powers virtual machines on in one call. The option has a cluster place them that leaves this to its administrator otherwise.
func (v *VCenter) powerOnTogether(
	ctx context.Context, datacenter types.ManagedObjectReference, refs []types.ManagedObjectReference,
) (map[types.ManagedObjectReference]error, error) {
	var task types.ManagedObjectReference
	err := v.brief(ctx, func(ctx context.Context, current *login) error {
		response, err := methods.PowerOnMultiVM_Task(ctx, current.client, &types.PowerOnMultiVM_Task{
			This: datacenter, Vm: refs,
			Option: []types.BaseOptionValue{&types.OptionValue{
				Key: string(types.ClusterPowerOnVmOptionOverrideAutomationLevel), Value: string(types.DrsBehaviorFullyAutomated),
			}},
		})
		if err == nil {
			task = response.Returnval
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("powering on: %w", err)
	}
	value, err := v.awaitTask(ctx, task, "")
	if err != nil && !errors.Is(err, ErrTaskForgotten) {
		return nil, fmt.Errorf("powering on: %w", err)
	}
	failed := map[types.ManagedObjectReference]error{}
	outcome, _ := value.(types.ClusterPowerOnVmResult)
	for _, not := range outcome.NotAttempted {
		failed[not.Vm] = &NotAttemptedError{Message: not.Fault.LocalizedMessage}
	}
	for _, attempted := range outcome.Attempted {
		v.powerOns.setAttempt(attempted.Vm, attempted.Task)
	}
	return failed, nil
}
