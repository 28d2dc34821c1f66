package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// extraPrefix begins the names of processes that are none of the control plane's components and end before them.
const extraPrefix = "extra-"

// endLimit is how long such a process may take to clean up behind itself.
const endLimit = 2 * time.Minute

// StartExtra starts a program as a process of this control plane: it ends before the control plane does, and with this process, unless the
// control plane is a detached one. Its log is LogFile of the name that is returned.
func (c *Cluster) StartExtra(name, path string, args ...string) (component string, err error) {
	component = extraPrefix + name
	if c.process(component).alive() {
		return "", fmt.Errorf("cluster: %s runs already", name)
	}
	started, err := launch(c.command(path, args), name, c.layout.log(component))
	if err != nil {
		return "", err
	}
	return component, c.own(component, started)
}

// ExtraRuns reports whether a process that StartExtra has started still runs.
func (c *Cluster) ExtraRuns(name string) bool { return c.process(extraPrefix + name).alive() }

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

// EndExtra asks a process that StartExtra has started to end, and waits until it has cleaned up behind itself. After two minutes it is killed,
// and the error says so.
func (c *Cluster) EndExtra(name string) error {
	component := extraPrefix + name
	id := c.process(component)
	if err := id.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cluster: ending %s: %w", name, err)
	}
	var late error
	if !waitGone(id, endLimit) {
		late = fmt.Errorf("cluster: %s (process %d) had not ended after %s and was killed; what it made may still be there; the end of its log %s:\n%s",
			name, id.PID, endLimit, c.layout.log(component), c.layout.logTail(component))
		if err := end(id, syscall.SIGKILL); err != nil {
			return errors.Join(late, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.state.Processes, component)
	return errors.Join(late, c.state.save(c.layout))
}

// endExtras ends all of them.
func (c *Cluster) endExtras() error {
	var failures []error
	for _, name := range c.Extras() {
		failures = append(failures, c.EndExtra(name))
	}
	return errors.Join(failures...)
}

// process returns the process of a component as it was started last; the zero value if it never was.
func (c *Cluster) process(component string) processID {
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
