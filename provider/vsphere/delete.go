package vsphere

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// foreignDisks is how soon a virtual machine is looked at again that has disks of others.
const foreignDisks = 20 * time.Second

// Delete powers the virtual machine off and destroys it, in the background.
func (a *Actuator) Delete(ctx context.Context, machine *machinev1beta1.Machine) error {
	if a.work.isRunning(machine.UID) {
		// Whatever its author has made of the Machine since, the virtual machine is on its way.
		return a.work.stopCreation(machine.UID)
	}
	t, err := a.target(ctx, machine)
	if err != nil {
		return a.unreadable(ctx, machine, err)
	}
	vm, err := a.find(ctx, t)
	switch {
	case err != nil:
		return err
	case vm == nil && t.vcenter.MayAppear(string(machine.UID)):
		return provider.RequeueAfter(time.Second, "waiting for a clone that may have begun while the vCenter did not answer")
	case vm == nil:
		if err := t.checkPlaceIsSeen(ctx); err != nil {
			return err
		}
		a.work.forget(machine.UID)
		return a.releaseClaims(ctx, machine, t.spec)
	}
	return a.work.do(machine, deletion, "powering the virtual machine off", func(ctx context.Context, op *operation) error {
		defer a.vcenters.hold(t.vcenter)()
		return takeDown(ctx, t, vm, op)
	})
}

// takeDown powers a virtual machine off and destroys it, unless that would destroy disks that are not its own.
func takeDown(ctx context.Context, t *target, vm *vcenter.VM, op *operation) error {
	if vm.IsOn() || vm.State == "suspended" {
		if err := t.vcenter.PowerOff(ctx, vm); err != nil {
			return err
		}
	}
	if vm, err := t.find(ctx); err != nil || vm == nil {
		return err
	}
	if err := removeForeignDisks(ctx, t); err != nil {
		return err
	}
	if err := op.next("destroying the virtual machine"); err != nil {
		return err
	}
	if err := t.vcenter.Destroy(ctx, vm); err != nil {
		return err
	}
	if group := t.spec.Workspace.VMGroup; group != "" {
		place, err := t.lookUpPlace(ctx)
		if err != nil {
			return fmt.Errorf("looking for the VM group %s: %w", group, err)
		}
		return t.vcenter.LeaveGroup(ctx, place.Cluster, group, vm)
	}
	return nil
}

// removeForeignDisks makes sure that a virtual machine has no disks but its own, which are destroyed with it. A driver of volumes detaches its own
// from a Node that has been drained; otherwise they are detached here, and their files are kept. How many disks there should be says nothing: the
// providerSpec may have changed, and a disk of its own may be missing.
func removeForeignDisks(ctx context.Context, t *target) error {
	vm, err := t.find(ctx)
	if err != nil || vm == nil {
		return err
	}
	disks, err := t.vcenter.Disks(ctx, vm)
	if err != nil {
		return err
	}
	foreign := foreignOf(vm.Name, disks)
	if len(foreign) == 0 {
		return nil
	}
	_, excluded := t.machine.Annotations[annotationExcludeDraining]
	if t.machine.Status.NodeRef != nil && !excluded {
		return provider.RequeueAfter(foreignDisks, fmt.Sprintf("virtual machine %s has %d disks that are not its own, such as %s, which would be "+
			"destroyed with it; waiting until they are detached", vm.Name, len(foreign), foreign[0].File))
	}
	if err := t.vcenter.Detach(ctx, vm, len(disks.All), foreign); err != nil {
		return err
	}
	// Another one may have been attached meanwhile, and the number of disks that is known is a late one.
	if disks, err = t.vcenter.Disks(ctx, vm); err != nil {
		return err
	}
	if left := foreignOf(vm.Name, disks); len(left) > 0 {
		return provider.RequeueAfter(lookAgain, fmt.Sprintf("detaching disk %s of virtual machine %s", left[0].File, vm.Name))
	}
	return nil
}

// foreignOf returns the disks that are volumes, and those whose files are not beside the configuration of the virtual machine, nor in a folder of its
// name with its name, as on another datastore.
func foreignOf(name string, disks *vcenter.Disks) (foreign []vcenter.Disk) {
	named := regexp.MustCompile(`[ /]` + regexp.QuoteMeta(name) + `/` + regexp.QuoteMeta(name) + `(_[0-9]+)?\.vmdk$`)
	beside := path.Dir(disks.File)
	for _, disk := range disks.All {
		isBeside := disks.File != "" && path.Dir(disk.File) == beside && strings.Contains(disk.File, "/")
		if disk.IsVolume || !isBeside && !named.MatchString(disk.File) {
			foreign = append(foreign, disk)
		}
	}
	return foreign
}
