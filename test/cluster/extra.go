package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// extraPrefix begins the names of processes that are none of the control plane's components and end before them.
const extraPrefix = "extra-"

// endLimit is how long such a process may take to clean up behind itself.
const endLimit = 2 * time.Minute

// StartExtra starts drover-sandbox with other arguments as a process of this control plane: it ends before the control plane does, and with
// this process, unless the control plane is a detached one. Its log is LogFile of the name that is returned.
func (c *Cluster) StartExtra(name string, args ...string) (component string, err error) {
	component = extraPrefix + name
	if c.extra(component).alive() {
		return "", fmt.Errorf("cluster: %s runs already", name)
	}
	output, err := os.OpenFile(filepath.Clean(c.layout.log(component)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return "", fmt.Errorf("cluster: opening the log of %s: %w", name, err)
	}
	defer func() { _ = output.Close() }()
	command := c.command(c.binary, args)
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("cluster: starting %s: %w", name, err)
	}
	id, err := identify(command.Process.Pid)
	if err != nil {
		_ = command.Process.Kill()
		return "", fmt.Errorf("cluster: starting %s: %w", name, err)
	}
	started := &child{id: id, done: make(chan struct{})}
	go func() {
		started.err = command.Wait()
		close(started.done)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.children[component], c.state.Processes[component] = started, id
	return component, c.state.save(c.layout)
}

// ExtraRuns tells whether a process that StartExtra has started still runs.
func (c *Cluster) ExtraRuns(name string) bool { return c.extra(extraPrefix + name).alive() }

// Extras lists the names of what StartExtra has started, sorted, whether it still runs or not.
func (c *Cluster) Extras() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for component := range c.state.Processes {
		if name, found := strings.CutPrefix(component, extraPrefix); found {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// EndExtra asks a process that StartExtra has started to end, and waits until it has cleaned up behind itself.
func (c *Cluster) EndExtra(name string) error {
	component := extraPrefix + name
	id := c.extra(component)
	if err := id.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cluster: ending %s: %w", name, err)
	}
	if !waitGone(id, endLimit) {
		return fmt.Errorf("cluster: %s (process %d) has not ended after %s; the end of its log %s:\n%s", name, id.PID, endLimit,
			c.layout.log(component), c.layout.logTail(component))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.state.Processes, component)
	return c.state.save(c.layout)
}

// endExtras ends all of them.
func (c *Cluster) endExtras() error {
	var failures []error
	for _, name := range c.Extras() {
		failures = append(failures, c.EndExtra(name))
	}
	return errors.Join(failures...)
}

func (c *Cluster) extra(component string) processID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Processes[component]
}

// ServerAddress is where the API server listens on this machine, as host:port.
func (c *Cluster) ServerAddress() (string, error) {
	server, err := url.Parse(c.admin.Host)
	if err != nil {
		return "", fmt.Errorf("cluster: reading the address of the API server: %w", err)
	}
	return server.Host, nil
}

// AuthorityFile is the file of the certificate that all servers and clients of the cluster trust.
func (c *Cluster) AuthorityFile() string { return c.layout.cert("ca") }

// ServingCertificate issues a certificate for a server with an address of its own, and returns it and its key as PEM.
func (c *Cluster) ServingCertificate(name string, addresses ...net.IP) (certPEM, keyPEM []byte, err error) {
	return c.credentials.ca.serverAt(name, []string{name}, addresses)
}
