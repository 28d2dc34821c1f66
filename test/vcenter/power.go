package vcenter

import (
	"context"
	"fmt"
	"net"
	"net/url"

	"github.com/vmware/govmomi/find"
)

// PowerOff powers a virtual machine of a vCenter of another process off, by its name.
func (s *Site) PowerOff(ctx context.Context, name string) error {
	client, err := newClient(ctx, &url.URL{Scheme: "https", Host: net.JoinHostPort(s.Host, s.Port), Path: "/sdk"})
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
