package vcenter

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/find"
)

// PowerOff powers a virtual machine of a vCenter of another process off, by its name.
func (s *Site) PowerOff(ctx context.Context, name string) error {
	client, err := s.VIM(ctx)
	if err != nil {
		return err
	}
	machine, err := find.NewFinder(client).VirtualMachine(ctx, "/"+Datacenter+"/vm/"+name)
	if err != nil {
		return fmt.Errorf("looking for virtual machine %s: %w", name, err)
	}
	task, err := machine.PowerOff(ctx)
	if err == nil {
		err = task.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("powering virtual machine %s off: %w", name, err)
	}
	return nil
}
