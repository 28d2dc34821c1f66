package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// Cluster is a running control plane. Its methods may be called from several goroutines.
type Cluster struct {
	opts        Options
	layout      layout
	binary      string
	credentials *credentials
	admin       *rest.Config
	lifeline    *lifeline // nil when the control plane outlives this process
	temporary   bool      // whether Dir was made by Start

	mu       sync.Mutex
	state    *state
	children map[string]*child
}

// Start starts a control plane and returns when its API answers, its CRDs are established, its other components are
// healthy and the namespace MachineNamespace exists. On an error everything it started is stopped again. With Detach
// components of Dir that already run are left alone and only the missing ones are started.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	c, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	release, err := lockFolder(c.layout)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.start(ctx); err != nil {
		c.opts.Keep = true // the error names its logs
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Open returns the control plane in a folder that an earlier Start with Detach left running. Some or all of its
// components may have ended since. A folder without one gives an error that is os.ErrNotExist.
func Open(dir string, opts Options) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("cluster: data folder %s: %w", dir, err)
	}
	opts.Dir, opts.Detach = dir, true
	c := &Cluster{opts: opts, layout: layout{dir: dir}, children: map[string]*child{}}
	if c.state, err = loadState(c.layout); err != nil {
		return nil, err
	}
	if c.binary, err = Binary(); err != nil {
		return nil, err
	}
	if c.credentials, err = loadCredentials(c.layout); err != nil {
		return nil, err
	}
	c.admin, err = loadKubeconfig(c.layout.kubeconfig("admin"))
	return c, err
}

// prepare finds the program and makes the folder.
func prepare(opts Options) (*Cluster, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, binary: binary, children: map[string]*child{}}
	dir := opts.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "drover-sandbox-"); err != nil {
			return nil, fmt.Errorf("cluster: making a temporary folder: %w", err)
		}
		c.temporary = true
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("cluster: data folder: %w", err)
	}
	c.layout = layout{dir: dir}
	return c, c.layout.create()
}

func (c *Cluster) start(ctx context.Context) error {
	begin := time.Now()
	var err error
	if c.state, err = prepareState(c.layout, c.opts); err != nil {
		return err
	}
	if running := c.state.running(); len(running) > 0 && !c.opts.Detach {
		return fmt.Errorf("cluster: a control plane already runs in %s: %v; stop it or choose another folder",
			c.layout.dir, running)
	}
	if c.credentials, err = loadCredentials(c.layout); err != nil {
		return err
	}
	if err := c.writeConfig(); err != nil {
		return err
	}
	if !c.opts.Detach {
		if c.lifeline, err = newLifeline(); err != nil {
			return err
		}
	}
	if err := c.startCore(ctx); err != nil {
		return err
	}
	c.opts.logf("API ready after %s", time.Since(begin).Round(time.Millisecond))
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.install(groupCtx) })
	group.Go(func() error { return c.startRest(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if c.hasMachineConfig() {
		if err := c.resumeMachineConfig(ctx); err != nil {
			return err
		}
	}
	c.opts.logf("everything ready after %s", time.Since(begin).Round(time.Millisecond))
	return nil
}

// startCore starts etcd and kube-apiserver at once: the API server tries until etcd answers.
func (c *Cluster) startCore(ctx context.Context) error {
	running := c.state.running()
	for _, name := range []string{Etcd, APIServer} {
		if slices.Contains(running, name) {
			continue
		}
		if err := c.spawn(name); err != nil {
			return err
		}
	}
	for _, name := range []string{Etcd, APIServer} {
		if err := c.waitReady(ctx, name); err != nil {
			return err
		}
		c.opts.logf("%s is ready", name)
	}
	return nil
}

// startRest starts the components that are clients of the API server.
func (c *Cluster) startRest(ctx context.Context) error {
	running := c.state.running()
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range c.state.Components {
		if name == Etcd || name == APIServer {
			continue
		}
		group.Go(func() error {
			if name == Kwok {
				if err := c.installKwokRole(ctx); err != nil {
					return err
				}
			}
			if !slices.Contains(running, name) {
				if err := c.spawn(name); err != nil {
					return err
				}
			}
			if err := c.waitReady(ctx, name); err != nil {
				return err
			}
			c.opts.logf("%s is ready", name)
			return nil
		})
	}
	return group.Wait()
}

// Stop ends every component, kube-apiserver's clients first and etcd last, and waits until they are gone. A temporary
// folder is removed. Only processes that this control plane started are signalled. Stopping twice does no harm.
func (c *Cluster) Stop() error {
	defer c.lifeline.close()
	if c.state == nil {
		return nil
	}
	// Extras stop first: their cleanup on this machine may need the API server, and files in the folder.
	failures := []error{c.endExtras()}
	c.mu.Lock()
	processes := make([]processID, 0, len(c.state.Processes))
	for name, id := range c.state.Processes {
		if !slices.Contains(startOrder, name) {
			// It was brought to the control plane later, such as a vCenter.
			processes = append(processes, id)
		}
	}
	for _, name := range slices.Backward(startOrder) {
		processes = append(processes, c.state.Processes[name])
	}
	c.mu.Unlock()
	// Only etcd has anything to lose, so only etcd is asked politely.
	last := len(processes) - 1
	for _, id := range processes[:last] {
		failures = append(failures, end(id, syscall.SIGKILL))
	}
	failures = append(failures, end(processes[last], syscall.SIGTERM))
	err := errors.Join(failures...)
	if err == nil && c.temporary && !c.opts.Keep && os.Getenv("DROVER_SANDBOX_KEEP") != "1" {
		err = os.RemoveAll(c.layout.dir)
	}
	return err
}

// patience is how long a process may take to end.
const patience = 10 * time.Second

// end signals a process and waits until it is gone, and kills it when it takes too long.
func end(id processID, sig syscall.Signal) error {
	for _, s := range []syscall.Signal{sig, syscall.SIGKILL} {
		if err := id.signal(s); errors.Is(err, os.ErrProcessDone) {
			return nil
		} else if err != nil {
			return err
		}
		if waitGone(id, patience) {
			return nil
		}
	}
	return fmt.Errorf("cluster: process %d is still there %s after SIGKILL", id.PID, patience)
}

// Dir returns the folder of its data, certificates and logs.
func (c *Cluster) Dir() string { return c.layout.dir }

// LogFile returns the path of a component's log.
func (c *Cluster) LogFile(component string) string { return c.layout.log(component) }

// Admin returns a configuration of a member of system:masters, without a client-side rate limit. The caller may
// change it.
func (c *Cluster) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// AdminKubeconfig returns the path of the administrator's kubeconfig file.
func (c *Cluster) AdminKubeconfig() string { return c.layout.kubeconfig("admin") }
