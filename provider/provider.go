// Package provider is what a provider of machines implements, so that Drover makes and removes instances for Machines: a cloud, a hypervisor,
// racks. docs/provider.md walks through one, and provider/conformance has the tests that every provider passes.
package provider

import (
	"context"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Actuator creates, gets and deletes the instance of one Machine. Drover calls it from many goroutines at the same time, but never twice at the same
// time for one Machine. A slow call delays no other Machine. An actuator must not change the Machine, which belongs to the cache. Annotations that
// Drover does not read are all kept if they have at most 8 KiB together; otherwise all of them are dropped, so that the author of a Machine cannot
// fill the memory. An actuator returns what it has found out, and Drover writes it to the Machine in one guarded patch. After a crash Drover makes
// the same call again: an actuator finds its instance by the Machine's name or UID, which it has put on the instance.
type Actuator interface {
	// Create makes the instance. When there is one already it returns that and makes none. An error made with InvalidConfiguration is for
	// good: the Machine goes to phase Failed and stays there; any other is tried again, later and later, or when RequeueAfter says.
	Create(ctx context.Context, machine *machinev1beta1.Machine) (*Instance, error)
	// Get looks at the instance; nil without an error when there is none. It must not change anything outside of the cluster.
	Get(ctx context.Context, machine *machinev1beta1.Machine) (*Instance, error)
	// Delete asks for the instance's end and need not wait for it: it is called until Get finds none. Nil when there is none.
	Delete(ctx context.Context, machine *machinev1beta1.Machine) error
}

// InstanceState is what the annotation machine.openshift.io/instance-state of a Machine says. A provider may have words of its own.
type InstanceState string

// The states that Drover gives a meaning.
const (
	// Pending: it has been asked for, or starts.
	Pending InstanceState = "Pending"
	// Running: it is there. The zero value counts as Running.
	Running InstanceState = "Running"
	// Stopped: it is there and turned off.
	Stopped InstanceState = "Stopped"
	// Terminating: its end has been asked for.
	Terminating InstanceState = "Terminating"
	// Unknown is what Drover writes when an instance is lost.
	Unknown InstanceState = "Unknown"
)

// Instance is what a provider knows of the instance behind a Machine. What is the zero value says nothing, and leaves on the Machine what is there.
type Instance struct {
	// ProviderID is Node.spec.providerID of the Node that the instance becomes. Once it is known it may not change.
	ProviderID string
	// Addresses are the instance's addresses. Drover finds a Node without a providerID by the internal addresses.
	Addresses []corev1.NodeAddress
	// State is how it is.
	State InstanceState
	// Off reports that it is turned off, whatever State calls that: no Pod runs on it. A Machine that is Stopped is off in any case.
	Off bool
	// Type, Region and Zone go to the labels machine.openshift.io/{instance-type,region,zone}, which the columns of kubectl show.
	Type, Region, Zone string
	// Status goes to status.providerStatus: an object of the provider's own. Nil leaves what is there.
	Status *runtime.RawExtension
	// LookAgain is how soon Get is to be called again although nothing happens; zero leaves that to Drover.
	LookAgain time.Duration
}

// Provider is one provider as Drover's entry point takes it (app.WithProvider).
type Provider struct {
	// Name is for logs and errors.
	Name string
	// Kinds are the kinds of spec.providerSpec.value that it serves, whatever their versions.
	Kinds []schema.GroupKind
	// OnRequest is set by a provider that --providers has to name before it serves Machines: one whose permissions are not part of every
	// installation, or one for tests, whose Machines have what no author of a Machine should be able to ask for on a cluster that is used.
	OnRequest bool
	// New makes its actuator. It is called once, before Drover starts to work.
	New func(environment Environment) (Actuator, error)
}

// Environment is what a provider gets to work with.
type Environment struct {
	// Config is the connection to the cluster, with Drover's identity.
	Config *rest.Config
	// Client reads Machines, MachineSets and Nodes from Drover's cache, and any other kind from the API server; it writes any kind. What it returns is
	// the caller's own. A Node from the cache has of its status the types, states and times of its conditions and its internal addresses alone, and
	// the cache may be a moment behind.
	Client client.Client
	// Options are the settings that the configuration has for this provider, in machines.providerOptions; nil for none. They are the
	// administrator's, while the provider's part of a Machine is its author's.
	Options map[string]string
	// Live reads any kind from the API server.
	Live client.Reader
	// Metrics takes the provider's own metrics; nil for none.
	Metrics prometheus.Registerer
}

// Runner is implemented by an actuator that works in the background, too.
type Runner interface {
	// Run is called once, and ends with its context, which ends when Drover stops to serve Machines. changed has Drover look at a Machine soon:
	// something about its instance has changed that no event in the cluster shows.
	Run(ctx context.Context, changed func(machine types.NamespacedName)) error
}
