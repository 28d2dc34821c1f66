package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/test/openshift"
)

// MachineConfig is the program of drover-sandbox that plays OpenShift's cluster-version-operator and machine-config-operator. It is none of
// the components that Options names: InstallOpenShift and StartMachineConfig bring it to a control plane that runs.
const MachineConfig = "machine-config"

// MachineConfigUser is the user name by which the API server knows it.
const MachineConfigUser = "system:" + MachineConfig

// MachineConfigClient returns a configuration of the machine-config simulator's own identity, for a simulator that runs in the caller's process.
// InstallOpenShift gives that identity its permissions.
func (c *Cluster) MachineConfigClient() (*rest.Config, error) {
	return c.clientConfig(identity{user: MachineConfigUser})
}

// StartMachineConfig starts the machine-config simulator as a process of its own and returns when its watches run. It ends with this process,
// unless the control plane is a detached one. Options are kept for ResumeMachineConfig; their Clock, Log and Started are not.
func (c *Cluster) StartMachineConfig(ctx context.Context, opts openshift.Options) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	if c.process(MachineConfig).alive() {
		return fmt.Errorf("cluster: %s runs already; stop it first", MachineConfig)
	}
	config, err := c.MachineConfigClient()
	if err != nil {
		return err
	}
	if err := WriteKubeconfig(config, c.layout.kubeconfig(MachineConfig)); err != nil {
		return err
	}
	text, err := json.MarshalIndent(opts, "", "  ")
	if err != nil {
		return fmt.Errorf("cluster: encoding the options of %s: %w", MachineConfig, err)
	}
	if err := writeFile(c.machineConfigOptions(), append(text, '\n')); err != nil {
		return err
	}
	return c.ResumeMachineConfig(ctx)
}

// ResumeMachineConfig starts the machine-config simulator again as it was started last. One that runs is left alone.
func (c *Cluster) ResumeMachineConfig(ctx context.Context) error {
	if !c.HasMachineConfig() {
		return fmt.Errorf("cluster: %s was never started here", MachineConfig)
	}
	if c.process(MachineConfig).alive() {
		return nil
	}
	ready := c.layout.config(MachineConfig + ".ready")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster: starting %s: %w", MachineConfig, err)
	}
	command := c.command(c.binary, []string{
		MachineConfig, "--kubeconfig=" + c.layout.kubeconfig(MachineConfig), "--options=" + c.machineConfigOptions(), "--ready-file=" + ready,
	})
	started, err := launch(command, MachineConfig, c.layout.log(MachineConfig))
	if err != nil {
		return err
	}
	if err := c.own(MachineConfig, started); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	return c.awaitReady(ctx, MachineConfig, func() error {
		_, err := os.Stat(ready)
		return err
	})
}

// KillMachineConfig sends a signal to the machine-config simulator; after SIGKILL it waits until the process is gone. It gives
// os.ErrProcessDone when it does not run.
func (c *Cluster) KillMachineConfig(sig syscall.Signal) error {
	return c.kill(MachineConfig, sig)
}

// StopMachineConfig ends the machine-config simulator if it runs. Stop of a detached control plane leaves that to its caller.
func (c *Cluster) StopMachineConfig() error { return end(c.process(MachineConfig), syscall.SIGKILL) }

// HasMachineConfig reports whether this control plane was ever given a machine-config simulator that runs as a process.
func (c *Cluster) HasMachineConfig() bool {
	_, err := os.Stat(c.machineConfigOptions())
	return err == nil
}

// MachineConfigStatus says how the machine-config simulator is.
func (c *Cluster) MachineConfigStatus() Status {
	status := Status{Component: MachineConfig, State: "absent"}
	if !c.HasMachineConfig() {
		return status
	}
	status.State = "stopped"
	id := c.process(MachineConfig)
	if stat, alive := id.stat(); alive {
		status.PID, status.Memory, status.State = id.PID, stat.memory, "running"
	}
	return status
}

func (c *Cluster) machineConfigOptions() string { return c.layout.config(MachineConfig + ".json") }
