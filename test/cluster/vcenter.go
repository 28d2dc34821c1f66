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

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/drover-io/drover/test/vcenter"
)

// VCenter is the program of drover-sandbox that plays a vCenter, and the guests of its virtual machines. It is none of the components that Options
// names: StartVCenter brings it to a control plane that runs.
const VCenter = "vcenter"

// VCenterOptions are what a vCenter is started with.
type VCenterOptions struct {
	// CloneDelay is how long a clone takes, and BootDelay how long it takes from power on until the Node registers.
	CloneDelay, BootDelay time.Duration
	// ClusterID is the cluster whose tag the vCenter has; empty for none.
	ClusterID string
}

// StartVCenter starts a vCenter as a process of its own, and returns where it is. It ends with this process, unless the control plane is a detached
// one.
func (c *Cluster) StartVCenter(ctx context.Context, options VCenterOptions) (*vcenter.Site, error) {
	if c.process(VCenter).alive() {
		return nil, fmt.Errorf("cluster: %s runs already; stop it first", VCenter)
	}
	user := "system:" + VCenter
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"create", "patch"}}}
	if err := c.grant(ctx, VCenter, user, rules); err != nil {
		return nil, err
	}
	config, err := c.clientConfig(identity{user: user})
	if err != nil {
		return nil, err
	}
	if err := WriteKubeconfig(config, c.layout.kubeconfig(VCenter)); err != nil {
		return nil, err
	}
	ready := c.layout.config(VCenter + ".ready")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cluster: starting %s: %w", VCenter, err)
	}
	command := c.command(c.binary, []string{
		VCenter, "--kubeconfig=" + c.layout.kubeconfig(VCenter), "--ready-file=" + ready, "--cluster-id=" + options.ClusterID,
		"--clone-delay=" + options.CloneDelay.String(), "--boot-delay=" + options.BootDelay.String(),
	})
	started, err := launch(command, VCenter, c.layout.log(VCenter))
	if err != nil {
		return nil, err
	}
	if err := c.own(VCenter, started); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	err = c.awaitReady(ctx, VCenter, func() error {
		_, err := c.VCenterSite()
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.VCenterSite()
}

// VCenterSite returns where the vCenter is that was started last.
func (c *Cluster) VCenterSite() (*vcenter.Site, error) {
	text, err := os.ReadFile(filepath.Clean(c.layout.config(VCenter + ".ready")))
	if err != nil {
		return nil, fmt.Errorf("cluster: %s does not run: %w", VCenter, err)
	}
	site := &vcenter.Site{}
	if err := json.Unmarshal(text, site); err != nil {
		return nil, fmt.Errorf("cluster: reading where %s is: %w", VCenter, err)
	}
	return site, nil
}

// StopVCenter ends the vCenter if it runs. Its virtual machines are gone then.
func (c *Cluster) StopVCenter() error { return end(c.process(VCenter), syscall.SIGKILL) }

// SignalVCenter sends a signal to the vCenter: SIGSTOP for one that does not answer, SIGCONT to end that.
func (c *Cluster) SignalVCenter(sig syscall.Signal) error { return c.kill(VCenter, sig) }
