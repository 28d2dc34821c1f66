package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// Status says how a component is.
type Status struct {
	Component string
	// State is "running", "unhealthy" (it runs but does not answer as it should), "stopped" (it ended) or "absent"
	// (it is not part of this control plane).
	State string
	// PID is the number of its process, 0 when there is none.
	PID int
	// Port is where it listens on 127.0.0.1, 0 when it is absent.
	Port int
	// Memory is the resident memory of its process in bytes.
	Memory int64
}

// Status asks every component how it is.
func (c *Cluster) Status(ctx context.Context) []Status {
	var all []Status
	for _, name := range startOrder {
		all = append(all, c.componentStatus(ctx, name))
	}
	if c.hasMachineConfig() {
		all = append(all, c.componentStatus(ctx, MachineConfig))
	}
	return all
}

func (c *Cluster) componentStatus(ctx context.Context, component string) Status {
	status := Status{Component: component, State: "absent"}
	if c.has(component) != nil {
		return status
	}
	id := c.process(component)
	status.Port, status.State = c.state.Ports[component], "stopped"
	stat, alive := id.stat()
	if !alive {
		return status
	}
	status.PID, status.Memory, status.State = id.PID, stat.memory, "running"
	if component == MachineConfig {
		return status
	}
	client, err := c.probeClient(component)
	if err == nil {
		defer client.CloseIdleConnections()
		err = c.probe(ctx, client, component)
	}
	if err != nil {
		status.State = "unhealthy"
	}
	return status
}

// Kill sends a signal to a component's process; after SIGKILL it waits until the process is gone. It gives
// os.ErrProcessDone when the component does not run.
func (c *Cluster) Kill(component string, sig syscall.Signal) error {
	if err := c.has(component); err != nil {
		return err
	}
	id := c.process(component)
	if err := id.signal(sig); err != nil {
		return fmt.Errorf("cluster: killing %s: %w", component, err)
	}
	if sig == syscall.SIGKILL && !waitGone(id, patience) {
		return fmt.Errorf("cluster: %s (process %d) is still there after %v", component, id.PID, sig)
	}
	return nil
}

// StartComponent starts a component that ended, with its data and on its port, and returns when it is ready. A
// component that already runs is only waited for.
func (c *Cluster) StartComponent(ctx context.Context, component string) error {
	if component == MachineConfig {
		return c.resumeMachineConfig(ctx)
	}
	if err := c.has(component); err != nil {
		return err
	}
	if !c.process(component).alive() {
		if err := c.spawn(component); err != nil {
			return err
		}
	}
	return c.waitReady(ctx, component)
}

// has returns an error unless the component is part of this control plane, or a simulator that was started beside it.
func (c *Cluster) has(component string) error {
	if !slices.Contains(c.state.Components, component) && c.process(component).PID == 0 {
		return fmt.Errorf("cluster: no component %q in this control plane; there are %v", component, c.state.Components)
	}
	return nil
}

// Purge stops the control plane and removes its folder with all data.
func (c *Cluster) Purge() error {
	if err := c.Stop(); err != nil {
		return err
	}
	// A folder without a state is not a sandbox's, whatever it is.
	if _, err := loadState(c.layout); errors.Is(err, os.ErrNotExist) && !c.temporary {
		return err
	}
	if err := os.RemoveAll(c.layout.dir); err != nil {
		return fmt.Errorf("cluster: removing the data folder: %w", err)
	}
	return nil
}
