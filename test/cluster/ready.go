package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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
	var last error
	id := c.process(component)
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		if last = probe(); last != nil && !id.alive() {
			return false, errors.New("its process has ended" + c.exitStatus(component))
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("cluster: %s is not ready: %w, last answer: %w; the end of its log %s:\n%s",
			component, err, last, c.layout.log(component), c.layout.logTail(component))
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
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if component == Etcd {
		config.RootCAs.AddCert(c.credentials.etcd.cert)
		pair, err := tls.LoadX509KeyPair(c.layout.cert("etcd-client"), c.layout.key("etcd-client"))
		if err != nil {
			return nil, fmt.Errorf("cluster: reading etcd's client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	} else {
		config.RootCAs.AddCert(c.credentials.ca.cert)
		pair, err := tls.X509KeyPair(c.admin.CertData, c.admin.KeyData)
		if err != nil {
			return nil, fmt.Errorf("cluster: reading the administrator's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}, nil
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
