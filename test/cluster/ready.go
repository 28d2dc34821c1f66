package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/test/eventually"
)

// readyLimit is how long a component may take to become ready on a busy machine.
const readyLimit = 90 * time.Second

// healthPaths are what each component answers with 200 once it does its work.
var healthPaths = map[string]string{
	Etcd: "/health", APIServer: "/readyz", ControllerManager: "/healthz", Scheduler: "/healthz", Kwok: "/healthz",
}

// waitReady waits until a component answers that it is ready. It fails early when the component's process ends.
func (c *Cluster) waitReady(ctx context.Context, component string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	client, err := c.probeClient(component)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return c.awaitReady(ctx, component, func() error { return c.probe(ctx, client, component) })
}

// awaitReady polls until probe returns no error. It fails early when the process ends.
func (c *Cluster) awaitReady(ctx context.Context, component string, probe func() error) error {
	id := c.process(component)
	err := eventually.Until(ctx, 0, pollInterval, func() error {
		err := probe()
		if err != nil && !id.alive() {
			return eventually.Final(fmt.Errorf("its process has ended%s, last answer: %w", c.exitStatus(component), err))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster: %s is not ready: %w; the end of its log %s:\n%s",
			component, err, c.layout.log(component), c.layout.logTail(component))
	}
	return nil
}

// probe asks a component once whether it is ready.
func (c *Cluster) probe(ctx context.Context, client *http.Client, component string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	url := localURL(c.state.Ports[component])
	if component == Kwok {
		url = "http://" + localAddress(c.state.Ports[component])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+healthPaths[component], nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}

// probeClient returns a client that trusts a component and that it trusts.
func (c *Cluster) probeClient(component string) (*http.Client, error) {
	config := c.Admin()
	if component == Etcd {
		config.TLSClientConfig = rest.TLSClientConfig{
			CAData: c.credentials.etcd.pem, CertFile: c.layout.cert("etcd-client"), KeyFile: c.layout.key("etcd-client"),
		}
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("cluster: reading the client certificate for %s: %w", component, err)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: secure}}, nil
}

func (c *Cluster) exitStatus(component string) string {
	c.mu.Lock()
	started := c.children[component]
	c.mu.Unlock()
	if started == nil {
		return ""
	}
	select {
	case <-started.done:
		if started.err == nil {
			return " (exit status 0)"
		}
		return " (" + started.err.Error() + ")"
	case <-time.After(time.Second):
		return ""
	}
}
