package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// find returns the virtual machine of a Machine; nil if it has none.
func (t *target) find(ctx context.Context) (*vcenter.VM, error) {
	vm, err := t.vcenter.Index().Get(string(t.machine.UID))
	if errors.Is(err, vcenter.ErrStarting) {
		return nil, provider.RequeueAfter(time.Second, fmt.Sprintf("%s %s", err, t.spec.Workspace.Server))
	}
	if err != nil || vm != nil {
		return vm, err
	}
	named, err := t.vcenter.Index().Find(t.machine.Name)
	if err != nil {
		return nil, err
	}
	unknown, err := t.hasUnknown(ctx, named)
	if err != nil {
		return nil, err
	}
	if unknown {
		// It may be the Machine's.
		return nil, provider.RequeueAfter(lookAgain, fmt.Sprintf("the vCenter does not report the configuration of virtual machine %s: "+
			"it is being created, or its files are inaccessible", t.machine.Name))
	}
	if recorded := statusOf(t.machine).InstanceID; recorded != nil && *recorded != "" {
		return t.findRestored(ctx, named, *recorded)
	}
	return nil, nil
}

// find returns the virtual machine of a Machine; nil if it has none. find returns an error if another vCenter has the virtual machine, or may have
// it. If a Machine has a providerID, its virtual machine must exist somewhere, unless it was seen last in this vCenter. The Machine's status records
// the vCenter that showed the virtual machine last.
func (a *Actuator) find(ctx context.Context, t *target) (*vcenter.VM, error) {
	vm, err := t.find(ctx)
	switch {
	case err != nil:
		return nil, err
	case vm != nil:
		a.machines.setSeen(t.machine, t.vcenter, vm.InstanceUUID)
		return vm, nil
	}
	if err := a.checkRecordedIsGone(ctx, t); err != nil {
		return nil, err
	}
	server, recorded := t.vcenter.Server(), statusOf(t.machine).Server
	mustExist := t.machine.Spec.ProviderID != nil && !a.machines.isSeen(t.machine, server) && !strings.EqualFold(recorded, server)
	if mustExist && recorded != "" && !a.vcenters.isConnected(recorded) {
		return nil, fmt.Errorf("the virtual machine of the Machine was in vCenter %s, which Drover is not connected to, and is not in %s: correct "+
			"providerSpec.workspace.server, or, if the virtual machine is gone, remove status.providerStatus.server", recorded, server)
	}
	return nil, a.vcenters.elsewhere(ctx, t.machine.UID, t.vcenter, func(other string) bool {
		return mustExist && (recorded == "" || strings.EqualFold(recorded, other))
	})
}

// checkRecordedIsGone returns an error if the vCenter does not show the virtual machine that the Machine's status records, and it still exists or the
// vCenter cannot be asked. The credentials may belong to another user now. If the current connection has shown the virtual machine before, the
// connection itself notices when the virtual machine becomes hidden.
func (a *Actuator) checkRecordedIsGone(ctx context.Context, t *target) error {
	status := statusOf(t.machine)
	if status.VirtualMachine == "" || status.InstanceID == nil || !strings.EqualFold(status.Server, t.vcenter.Server()) ||
		a.machines.isSeenBy(t.machine, t.vcenter) {
		return nil
	}
	exists, err := t.vcenter.Exists(ctx, status.VirtualMachine, *status.InstanceID)
	switch {
	case err != nil:
		return fmt.Errorf("looking for virtual machine %s of the Machine: %w", status.VirtualMachine, err)
	case exists:
		return fmt.Errorf("virtual machine %s of the Machine exists in vCenter %s, and is not shown to the user of Secret %s/%s: check the permissions "+
			"of the user", status.VirtualMachine, t.vcenter.Server(), t.machine.Namespace, t.spec.CredentialsSecret.Name)
	}
	return nil
}

// hasUnknown reports whether the vCenter does not report what identifies one of the virtual machines, which is in the folder of the workspace.
func (t *target) hasUnknown(ctx context.Context, named []*vcenter.VM) (bool, error) {
	for _, vm := range named {
		if vm.InstanceUUID != "" {
			continue
		}
		place, err := t.lookUpPlace(ctx)
		if err != nil {
			return false, fmt.Errorf("looking for the virtual machine: %w", err)
		}
		if vm.Parent == nil || *vm.Parent == place.Folder {
			return true, nil
		}
	}
	return false, nil
}

// findRestored returns the virtual machine of a Machine that has been restored from a backup, and so has another UID than before: it has the name of
// the Machine in the folder of its workspace, and the UUID of its BIOS is the recorded one.
func (t *target) findRestored(ctx context.Context, named []*vcenter.VM, recorded string) (*vcenter.VM, error) {
	if len(named) == 0 {
		return nil, nil
	}
	place, err := t.lookUpPlace(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the virtual machine: %w", err)
	}
	for _, vm := range named {
		if vm.Parent != nil && *vm.Parent == place.Folder && strings.EqualFold(vm.UUID, recorded) {
			return vm, nil
		}
	}
	return nil, nil
}

// unreadable says of a Machine that cannot be read that it has no instance, if it never had one: then it must be able to go.
func (a *Actuator) unreadable(ctx context.Context, machine *machinev1beta1.Machine, err error) error {
	isInvalid := provider.ReasonOf(err, machinev1beta1.UpdateMachineError) == machinev1beta1.InvalidConfigurationMachineError
	if isInvalid && a.work.isRunning(machine.UID) {
		// Its author has changed it meanwhile: the virtual machine that is on its way must not be forgotten.
		return provider.RequeueAfter(lookAgain, "the virtual machine is being created as the Machine was before; "+err.Error())
	}
	switch {
	case !isInvalid:
		return err
	case machine.Spec.ProviderID != nil || statusOf(machine).InstanceID != nil:
		// A terminal error would let a Machine go that has no addresses yet.
		return fmt.Errorf("the Machine has a virtual machine; correct the providerSpec: %s", err.Error())
	}
	if found := a.lookForInvalid(ctx, machine); found != nil {
		return fmt.Errorf("%w; correct the providerSpec: %s", found, err.Error())
	}
	if machine.DeletionTimestamp != nil {
		return a.releaseClaims(ctx, machine, nil)
	}
	return nil
}

// lookForInvalid returns an error if a Machine whose providerSpec is invalid may have a virtual machine: its author has changed it since.
func (a *Actuator) lookForInvalid(ctx context.Context, machine *machinev1beta1.Machine) error {
	spec := connectionIn(&machine.Spec.ProviderSpec)
	if spec == nil {
		return a.vcenters.elsewhere(ctx, machine.UID, nil, func(string) bool { return false })
	}
	// What is wrong may be elsewhere in the providerSpec.
	server, mustAnswer := spec.Workspace.Server, false
	switch t, err := a.connect(ctx, machine.Namespace, spec); {
	case apierrors.IsNotFound(err):
		// Without the Secret only those can be asked that are connected.
		mustAnswer = true
	case err != nil:
		return fmt.Errorf("the Machine may have a virtual machine in vCenter %s: %w", server, err)
	default:
		if vm, err := t.vcenter.Index().Get(string(machine.UID)); err != nil || vm != nil || t.vcenter.MayAppear(string(machine.UID)) {
			return fmt.Errorf("the Machine may have a virtual machine in vCenter %s", server)
		}
	}
	return a.vcenters.elsewhere(ctx, machine.UID, nil, func(other string) bool { return mustAnswer && strings.EqualFold(other, server) })
}
