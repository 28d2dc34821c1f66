// Package vsphere is the provider whose Machines are virtual machines of VMware vSphere. It serves the VSphereMachineProviderSpec of
// machine-api-operator: https://github.com/openshift/machine-api-operator/tree/master/pkg/controller/vsphere
package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// Name is the provider's name.
const Name = "vsphere"

// Provider returns the provider for app.WithProvider.
func Provider() provider.Provider {
	return provider.Provider{
		Name: Name, Kinds: kinds(), OnRequest: true,
		New: func(environment provider.Environment) (provider.Actuator, error) {
			options, err := optionsOf(environment.Options)
			if err != nil {
				return nil, err
			}
			core, err := corev1client.NewForConfig(environment.Config)
			if err != nil {
				return nil, fmt.Errorf("creating a client: %w", err)
			}
			actuator := NewActuator(core, environment.Client, options)
			return actuator, actuator.calls.register(environment.Metrics)
		},
	}
}

// Options are the administrator's settings.
type Options struct {
	// CloudConfig is the ConfigMap with the configuration of the cloud provider, and CloudConfigKey its key. Without that ConfigMap defaults count.
	CloudConfig    types.NamespacedName
	CloudConfigKey string
	// ClusterID is the name of the cluster in its tag, for Machines that have no label machine.openshift.io/cluster-api-cluster.
	ClusterID string
	// MaxClones is how many clones run at once in each vCenter; zero is 8.
	MaxClones int
	// limits are how long a vCenter is waited for.
	limits vcenter.Limits
	// Clock returns the time; nil is the real clock.
	Clock clock.WithTicker
}

// The names of the settings in machines.providerOptions.vsphere.
const (
	optionCloudConfig    = "cloudConfig"
	optionCloudConfigKey = "cloudConfigKey"
	optionClusterID      = "clusterID"
	optionMaxClones      = "maxClones"
)

// defaultOptions are those of OpenShift.
func defaultOptions() Options {
	return Options{
		CloudConfig: types.NamespacedName{Namespace: "openshift-config-managed", Name: "kube-cloud-config"}, CloudConfigKey: "cloud.conf",
	}
}

// optionsOf reads the settings.
func optionsOf(settings map[string]string) (Options, error) {
	options := defaultOptions()
	for name, value := range settings {
		switch name {
		case optionCloudConfig:
			key, err := namespacedName(value)
			if err != nil {
				return options, fmt.Errorf("option %s: %w", name, err)
			}
			options.CloudConfig = key
		case optionCloudConfigKey:
			options.CloudConfigKey = value
		case optionClusterID:
			options.ClusterID = value
		case optionMaxClones:
			number, err := strconv.Atoi(value)
			if err != nil || number < 1 || number > 1000 {
				return options, fmt.Errorf("option %s: %q is not a number from 1 to 1000", name, value)
			}
			options.MaxClones = number
		default:
			return options, fmt.Errorf("option %s: unknown; known are %s, %s, %s and %s", name, optionCloudConfig, optionCloudConfigKey, optionClusterID,
				optionMaxClones)
		}
	}
	return options, nil
}

// Actuator creates and deletes virtual machines.
type Actuator struct {
	core     corev1client.CoreV1Interface
	client   client.Client
	options  Options
	clock    clock.WithTicker
	calls    *calls
	vcenters *vcenters
	work     *operations
	machines *machineNames
	reads    reads
}

var (
	_ provider.Actuator = (*Actuator)(nil)
	_ provider.Runner   = (*Actuator)(nil)
)

// NewActuator returns an Actuator that reads Secrets and ConfigMaps with one client, and claims of addresses with the other.
func NewActuator(core corev1client.CoreV1Interface, client client.Client, options Options) *Actuator {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	a := &Actuator{core: core, client: client, options: options, clock: options.Clock, calls: newCalls(), machines: newMachineNames()}
	a.work = newOperations(a.machines.changed, options.Clock)
	a.vcenters = newVCenters(func(endpoint vcenter.Endpoint, credentials vcenter.Credentials) *vcenter.VCenter {
		return vcenter.New(endpoint, credentials, vcenter.Options{
			MaxClones: options.MaxClones, Limits: options.limits, Calls: a.calls, Clock: options.Clock, Changed: a.machines.changed,
			IsMachine: a.machines.has,
		})
	}, options.Clock)
	return a
}

// Run works in the background until the context ends: it follows what changes in the vCenters. changed is called with a Machine that is worth
// looking at.
func (a *Actuator) Run(ctx context.Context, changed func(types.NamespacedName)) error {
	a.machines.notify(changed)
	a.work.begin(ctx)
	a.vcenters.run(ctx)
	a.work.wait()
	return nil
}

// calls counts the calls of all vCenters.
type calls struct{ *prometheus.CounterVec }

func newCalls() *calls {
	return &calls{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "drover_vsphere_calls_total", Help: "Calls of the provider vsphere to the API of a vCenter, by vCenter, method and result (ok, error).",
	}, []string{"server", "method", "result"})}
}

// register registers the metric, once in a process.
func (c *calls) register(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	err := registry.Register(c.CounterVec)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			c.CounterVec = existing
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	return nil
}

// Observe counts a call.
func (c *calls) Observe(server, method string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	c.WithLabelValues(server, method, result).Inc()
}
