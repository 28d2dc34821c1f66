package vcenter

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/vim25"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigNamespace is the namespace of the configuration of the cloud provider.
const ConfigNamespace = "openshift-config-managed"

// Site is where a vCenter is that runs, perhaps as a process of its own.
type Site struct {
	// Host is without the Port, which is in the configuration of the cloud provider: keys of Secrets have no colons.
	Host string `json:"host"`
	Port string `json:"port"`
	// ClusterTag is the identity of the tag of the cluster.
	ClusterTag string `json:"clusterTag,omitempty"`
	// PID is the number of its process; zero for a vCenter in this process.
	PID int `json:"pid,omitempty"`
	// Control is the URL that Control and State use; empty for a vCenter in this process.
	Control string `json:"control,omitempty"`
}

// CloudConfig is the configuration of the cloud provider for this vCenter.
func (s *Site) CloudConfig() string {
	const format = "vcenter:\n  sandbox: {server: %s, port: %s, insecureFlag: true}\nlabels:\n  region: %s\n  zone: %s\n"
	return fmt.Sprintf(format, s.Host, s.Port, RegionCategory, ZoneCategory)
}

// ProviderSpec returns the providerSpec of Machines in this vCenter.
func (s *Site) ProviderSpec() *machinev1beta1.VSphereMachineProviderSpec {
	return &machinev1beta1.VSphereMachineProviderSpec{
		TypeMeta: metav1.TypeMeta{APIVersion: "machine.openshift.io/v1beta1", Kind: "VSphereMachineProviderSpec"},
		Template: Template, NumCPUs: 4, MemoryMiB: 16384, DiskGiB: 120,
		Workspace: &machinev1beta1.Workspace{Server: s.Host, Datacenter: Datacenter, Datastore: Datastore, ResourcePool: Pool},
		Network:   machinev1beta1.NetworkSpec{Devices: []machinev1beta1.NetworkDeviceSpec{{NetworkName: Network}}},
	}
}

// Behavior is what a vCenter does on request.
type Behavior struct {
	// CloneDelay is how long a clone takes.
	CloneDelay time.Duration `json:"cloneDelay,omitempty"`
	// CloneFault is the type of the fault that clones end with, such as NoDiskSpace; empty for none.
	CloneFault string `json:"cloneFault,omitempty"`
	// Clones are how the clones of some Machines end, by the first letters of their names.
	Clones map[string]CloneBehavior `json:"clones,omitempty"`
	// REST is the HTTP status that the REST API, which has the tags, answers with; zero for its own.
	REST int `json:"rest,omitempty"`
	// Password is the only password that is accepted; empty for the usual password.
	Password string `json:"password,omitempty"`
	// Calls are faults of calls, by the name of the SOAP method, such as NotAuthenticated; each happens once.
	Calls map[string]string `json:"calls,omitempty"`
}

// CloneBehavior is how a clone ends.
type CloneBehavior struct {
	// Delay is how long it takes, and Fault the type of the fault that it ends with; empty for none.
	Delay time.Duration `json:"delay,omitempty"`
	Fault string        `json:"fault,omitempty"`
	// Held keeps it from ending, and from being canceled, until another behavior is set.
	Held bool `json:"held,omitempty"`
}

// CloneRequest is what a clone was asked for with that the simulator does not carry out.
type CloneRequest struct {
	// Snapshot is the snapshot of a linked clone; empty for a full clone.
	Snapshot string `json:"snapshot,omitempty"`
	// DiskMoveType is how the disks are cloned.
	DiskMoveType string `json:"diskMoveType"`
}

// State is how a vCenter is.
type State struct {
	// Requests are the last ones for clones, by the names of their virtual machines.
	Requests map[string]CloneRequest `json:"requests"`
	// Clones is how many clones have ended with a virtual machine.
	Clones int `json:"clones"`
	// Machines are the virtual machines that are no templates, with their power states, by name.
	Machines map[string]string `json:"machines"`
}

// SetBehavior has a vCenter of another process behave so from now on.
func (s *Site) SetBehavior(ctx context.Context, behavior Behavior) error {
	return s.call(ctx, http.MethodPost, behavior, nil)
}

// EndSessions ends all sessions of a vCenter of another process.
func (s *Site) EndSessions(ctx context.Context) error {
	client, err := s.VIM(ctx)
	if err != nil {
		return err
	}
	return EndOtherSessions(ctx, client)
}

// State returns how a vCenter of another process is.
func (s *Site) State(ctx context.Context) (State, error) {
	var state State
	err := s.call(ctx, http.MethodGet, nil, &state)
	return state, err
}

func (s *Site) call(ctx context.Context, method string, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("asking the vCenter: %w", err)
	}
	call, err := http.NewRequestWithContext(ctx, method, s.Control, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("asking the vCenter: %w", err)
	}
	answer, err := http.DefaultClient.Do(call)
	if err != nil {
		return fmt.Errorf("asking the vCenter: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1024))
		return fmt.Errorf("asking the vCenter: %s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	if response == nil {
		return nil
	}
	if err := json.NewDecoder(answer.Body).Decode(response); err != nil {
		return fmt.Errorf("reading the answer of the vCenter: %w", err)
	}
	return nil
}

// VIM returns a client of the SOAP API that has logged in.
func (s *Site) VIM(ctx context.Context) (*vim25.Client, error) {
	return newClient(ctx, &url.URL{Scheme: "https", Host: net.JoinHostPort(s.Host, s.Port), Path: vim25.Path})
}

// Objects are what Drover needs to know of this vCenter: credentials, user data, and the configuration of the cloud provider.
func (s *Site) Objects(namespace string) []client.Object {
	return []client.Object{
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ConfigNamespace, Name: "kube-cloud-config"},
			Data:       map[string]string{"cloud.conf": s.CloudConfig()},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "vsphere-cloud-credentials"},
			Data:       map[string][]byte{s.Host + ".username": []byte(Username), s.Host + ".password": []byte(Password)},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-user-data"},
			Data:       map[string][]byte{"userData": []byte(`{"ignition":{"version":"3.4.0"}}`)},
		},
	}
}
