package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
	"github.com/drover-io/drover/test/vcenter"
)

// The simulators are programs of drover-sandbox that are none of the components of Options. They run as processes of their own, beside a control
// plane that runs, and end with this process, unless the control plane is a detached one.
const (
	// MachineConfig plays OpenShift's cluster-version-operator and machine-config-operator. Kill, StartComponent and Status also take it.
	MachineConfig = "machine-config"
	// VCenter plays a vCenter, and the guests of its virtual machines. Kill also takes it.
	VCenter = "vcenter"
)

// MachineConfigUser is the user name of the machine-config simulator.
const MachineConfigUser = "system:" + MachineConfig

// MachineConfigClient returns a configuration of the machine-config simulator's own identity, for a simulator that runs in the caller's process.
// InstallOpenShift gives that identity its permissions.
func (c *Cluster) MachineConfigClient() (*rest.Config, error) {
	return c.clientConfig(identity{user: MachineConfigUser})
}

// StartMachineConfig starts the machine-config simulator and returns when every pool has a configuration. Options are kept for StartComponent; their
// Clock, Log and Started are not.
func (c *Cluster) StartMachineConfig(ctx context.Context, opts openshift.Options) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	if c.process(MachineConfig).alive() {
		return fmt.Errorf("cluster: %s runs already; stop it first", MachineConfig)
	}
	text, err := json.MarshalIndent(opts, "", "  ")
	if err != nil {
		return fmt.Errorf("cluster: encoding the options of %s: %w", MachineConfig, err)
	}
	if err := WriteFile(c.machineConfigOptions(), append(text, '\n')); err != nil {
		return err
	}
	if err := c.resumeMachineConfig(ctx); err != nil {
		return err
	}
	reader, err := openshift.NewClient(c.admin)
	if err != nil {
		return err
	}
	return openshift.AwaitPools(ctx, reader)
}

// resumeMachineConfig starts the machine-config simulator again with its last options. It does nothing if the simulator is running.
func (c *Cluster) resumeMachineConfig(ctx context.Context) error {
	if !c.hasMachineConfig() {
		return fmt.Errorf("cluster: %s was never started here", MachineConfig)
	}
	if c.process(MachineConfig).alive() {
		return nil
	}
	return c.startSimulator(ctx, MachineConfig, "--options="+c.machineConfigOptions())
}

// hasMachineConfig reports whether this control plane was ever given a machine-config simulator that runs as a process.
func (c *Cluster) hasMachineConfig() bool {
	_, err := os.Stat(c.machineConfigOptions())
	return err == nil
}

func (c *Cluster) machineConfigOptions() string { return c.layout.config(MachineConfig + ".json") }

// VCenterOptions are what a vCenter is started with.
type VCenterOptions struct {
	// CloneDelay is how long a clone takes, and BootDelay how long it takes from power on until the Node registers.
	CloneDelay, BootDelay time.Duration
	// ClusterID is the cluster whose tag the vCenter has; empty for none.
	ClusterID string
}

// StartVCenter starts a vCenter, writes what Drover needs to know of it to the cluster, and returns where it is.
func (c *Cluster) StartVCenter(ctx context.Context, options VCenterOptions) (*vcenter.Site, error) {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"create", "patch"}}}
	if err := c.grant(ctx, VCenter, "system:"+VCenter, rules); err != nil {
		return nil, err
	}
	err := c.startSimulator(ctx, VCenter, "--cluster-id="+options.ClusterID, "--clone-delay="+options.CloneDelay.String(),
		"--boot-delay="+options.BootDelay.String())
	if err != nil {
		return nil, err
	}
	site, err := c.VCenterSite()
	if err != nil {
		return nil, err
	}
	return site, c.announce(ctx, site)
}

// announce writes what Drover needs to know of a vCenter. What is there of an earlier one is replaced.
func (c *Cluster) announce(ctx context.Context, site *vcenter.Site) error {
	writer, err := openshift.NewClient(c.admin)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vcenter.ConfigNamespace}}
	if err := writer.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("cluster: making the namespace %s: %w", namespace.Name, err)
	}
	for _, object := range site.Objects(MachineNamespace) {
		if err := writer.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cluster: deleting %s: %w", object.GetName(), err)
		}
		object.SetResourceVersion("")
		if err := writer.Create(ctx, object); err != nil {
			return fmt.Errorf("cluster: making %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// VCenterSite returns where the vCenter is that was started last.
func (c *Cluster) VCenterSite() (*vcenter.Site, error) {
	text, err := os.ReadFile(c.readyFile(VCenter))
	if err != nil {
		return nil, fmt.Errorf("cluster: %s does not run: %w", VCenter, err)
	}
	site := &vcenter.Site{}
	if err := json.Unmarshal(text, site); err != nil {
		return nil, fmt.Errorf("cluster: reading where %s is: %w", VCenter, err)
	}
	return site, nil
}

// readyFile is what a simulator writes when it is ready.
func (c *Cluster) readyFile(simulator string) string {
	return filepath.Clean(c.layout.config(simulator + ".ready"))
}

// startSimulator starts a simulator as an identity of its own and returns when it is ready.
func (c *Cluster) startSimulator(ctx context.Context, name string, args ...string) error {
	if c.process(name).alive() {
		return fmt.Errorf("cluster: %s runs already; stop it first", name)
	}
	config, err := c.clientConfig(identity{user: "system:" + name})
	if err != nil {
		return err
	}
	kubeconfig, ready := c.layout.kubeconfig(name), c.readyFile(name)
	if err := WriteKubeconfig(config, kubeconfig); err != nil {
		return err
	}
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster: starting %s: %w", name, err)
	}
	command := c.command(c.binary, append([]string{name, "--kubeconfig=" + kubeconfig, "--ready-file=" + ready}, args...))
	started, err := launch(command, name, c.layout.log(name))
	if err != nil {
		return err
	}
	if err := c.own(name, started); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	return c.awaitReady(ctx, name, func() error {
		_, err := os.Stat(ready)
		return err
	})
}

// StopSimulator ends a simulator if it runs. The virtual machines of a vCenter are gone then.
func (c *Cluster) StopSimulator(name string) error { return end(c.process(name), syscall.SIGKILL) }
