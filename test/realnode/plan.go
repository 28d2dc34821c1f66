package realnode

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/drover-io/drover/test/cluster"
)

// Plan is what a node is made of. Add writes it, and the process of the node reads it.
type Plan struct {
	// Name is the Node's.
	Name string `json:"name"`
	// Server is where the API server listens on this machine, as host:port.
	Server string `json:"server"`
	// Authority is the file of the certificate that server and clients trust.
	Authority string `json:"authority"`
	// Labels are the labels that the Node registers with.
	Labels map[string]string `json:"labels,omitempty"`
	// MaxPods is how many Pods fit; zero is 30.
	MaxPods int `json:"maxPods,omitempty"`
	// Images are archives that are imported; the first one is what Pods' sandboxes are made of.
	Images []string `json:"images"`
}

// Network is where a node is on this machine. The process of the node writes it.
type Network struct {
	// Index counts the nodes of this machine, from 1.
	Index int `json:"index"`
	// Made is the number of the process that has made it.
	Made int `json:"made"`
}

// Namespace is the name of the network namespace.
func (n Network) Namespace() string { return fmt.Sprintf("drover-%d", n.Index) }

// Link is the name of the interface on this machine's side.
func (n Network) Link() string { return fmt.Sprintf("drover%d", n.Index) }

// Gateway is this machine's address on the link.
func (n Network) Gateway() net.IP { return net.ParseIP(fmt.Sprintf("10.200.%d.1", n.Index)) }

// Address is the node's.
func (n Network) Address() net.IP { return net.ParseIP(fmt.Sprintf("10.200.%d.2", n.Index)) }

// Pods is the range of the Pods' addresses.
func (n Network) Pods() string { return fmt.Sprintf("10.201.%d.0/24", n.Index) }

// ServiceAddress is where Pods find the API server.
const ServiceAddress = "10.0.0.1"

// Folder has the files of a node.
type Folder string

// Path returns the path of a file in the folder.
func (f Folder) Path(parts ...string) string {
	return filepath.Join(append([]string{string(f)}, parts...)...)
}

// The files that Add and the process of the node have for each other.
func (f Folder) plan() string    { return f.Path("plan.json") }
func (f Folder) network() string { return f.Path("network.json") }

// Kubeconfig is the kubelet's.
func (f Folder) Kubeconfig() string { return f.Path("kubelet.kubeconfig") }

// Certificate is the kubelet's serving certificate. Key is written before it.
func (f Folder) Certificate() string { return f.Path("kubelet.crt") }

// Key is the private key of Certificate.
func (f Folder) Key() string { return f.Path("kubelet.key") }

// Ready is there when the kubelet has been started.
func (f Folder) Ready() string { return f.Path("ready") }

// Socket is containerd's.
func (f Folder) Socket() string { return f.Path("containerd.sock") }

// Plan reads the node's plan.
func (f Folder) Plan() (*Plan, error) {
	plan := &Plan{}
	return plan, readJSON(f.plan(), plan)
}

// Network reads where the node is. Before it is known the error is os.ErrNotExist.
func (f Folder) Network() (Network, error) {
	network := Network{}
	return network, readJSON(f.network(), &network)
}

// SetNetwork notes where the node is.
func (f Folder) SetNetwork(network Network) error { return writeJSON(f.network(), network) }

func readJSON(path string, into any) error {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return fmt.Errorf("realnode: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("realnode: reading %s: %w", path, err)
	}
	return nil
}

func writeJSON(path string, from any) error {
	text, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return fmt.Errorf("realnode: encoding %s: %w", path, err)
	}
	return cluster.WriteFile(path, append(text, '\n'))
}
