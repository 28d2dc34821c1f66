package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The group, version and kind that a configuration file must name.
const (
	APIVersion = "config.drover.dev/v1alpha1"
	Kind       = "DroverConfiguration"
)

// DroverConfiguration is the content of the file that --config names. Everything in it is optional; what is left out has the default
// that its comment names. A flag on the command line goes over the file.
type DroverConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Controllers picks capabilities as kube-controller-manager does: "*" for all, "name" for one, "*" and "-name" for all but one; a list
	// without "*" turns on only what it names. The first entry that names a capability counts. Default ["*"].
	Controllers []string `json:"controllers,omitempty"`
	// Namespace is where MachineSets and Machines are looked for; "" for all namespaces. Default openshift-machine-api.
	Namespace *string `json:"namespace,omitempty"`
	// LeaderElection lets one of several replicas work while the others stand by.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Metrics is the endpoint for Prometheus.
	Metrics Metrics `json:"metrics,omitempty"`
	// Health is the endpoint for the probes /healthz and /readyz.
	Health Health `json:"health,omitempty"`
	// Log is how the operator logs to standard error.
	Log Log `json:"log,omitempty"`
	// Metadata are the settings of the capability of that name.
	Metadata Metadata `json:"metadata,omitempty"`
	// Drain are the settings of all drains together.
	Drain Drain `json:"drain,omitempty"`
	// Maintenance are the settings of the capabilities maintenance and maintenance-kubevirt.
	Maintenance Maintenance `json:"maintenance,omitempty"`
	// Machines are the settings of the capability of that name.
	Machines Machines `json:"machines,omitempty"`
	// Upgrade are the settings of the capability of that name.
	Upgrade Upgrade `json:"upgrade,omitempty"`
	// Webhook is the endpoint by which the API server asks whether a NodeMaintenance may be created or changed.
	Webhook Webhook `json:"webhook,omitempty"`
}

// LeaderElection configures the lease by which replicas agree who works.
type LeaderElection struct {
	// Enabled switches it. Default true.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespace is where the lease lives. Default: the namespace of the Pod.
	Namespace string `json:"namespace,omitempty"`
	// Name is the lease's name. Default drover.
	Name string `json:"name,omitempty"`
	// LeaseDuration is how long a silent leader keeps the lease. Default 15s.
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long a leader tries to renew before it gives up; below LeaseDuration. Default 10s.
	RenewDeadline *metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the time between two tries; below RenewDeadline. Default 2s.
	RetryPeriod *metav1.Duration `json:"retryPeriod,omitempty"`
}

// Metrics configures the metrics endpoint.
type Metrics struct {
	// BindAddress is host:port, or "0" for no endpoint. Default ":8443".
	BindAddress *string `json:"bindAddress,omitempty"`
	// Secure serves TLS and asks the API server who the caller is and whether it may get /metrics. Default true.
	Secure *bool `json:"secure,omitempty"`
	// CertDir holds tls.crt and tls.key. Default: a certificate made at each start.
	CertDir string `json:"certDir,omitempty"`
	// HTTP2 lets callers of /metrics use HTTP/2. Default false: HTTP/1.1 does, and is not open to the rapid reset of streams.
	HTTP2 *bool `json:"http2,omitempty"`
}

// Health configures the probes' endpoint.
type Health struct {
	// BindAddress is host:port, or "0" for no endpoint. Default ":8081".
	BindAddress *string `json:"bindAddress,omitempty"`
}

// Log configures logging.
type Log struct {
	// Format is json or text. Default json.
	Format string `json:"format,omitempty"`
	// Verbosity is 0 for what an operator's user wants to know, 1 for each write, 4 for debugging, at most 7. Default 0.
	Verbosity *int `json:"verbosity,omitempty"`
}

// Metadata configures how labels, annotations and taints are carried to Machines and Nodes.
type Metadata struct {
	// Workers is how many Machines are worked on at once. Default 32.
	Workers *int `json:"workers,omitempty"`
	// WritesPerSecond bounds the Nodes written per second: every write reaches each watcher of Nodes, on a large cluster a thousand of
	// them. 0 for no bound. Default 100.
	WritesPerSecond *float64 `json:"writesPerSecond,omitempty"`
	// WritesBurst is how many Nodes may be written at once after a pause. Default 100.
	WritesBurst *int `json:"writesBurst,omitempty"`
	// Protected are keys that Drover never sets or removes, beside the built-in list. `*` stands for any text.
	Protected Protected `json:"protected,omitempty"`
	// Unprotected are patterns to take off the built-in list (docs/compatibility.md), each as it stands there.
	Unprotected Protected `json:"unprotected,omitempty"`
}

// Drain configures how pods are made to leave, on all nodes together.
type Drain struct {
	// RequestsPerSecond bounds evictions and deletions of pods, 0 for no bound. Default 100.
	RequestsPerSecond *float64 `json:"requestsPerSecond,omitempty"`
	// Burst is how many may be made at once after a pause. Default 200.
	Burst *int `json:"burst,omitempty"`
	// Workers is how many may be under way at once. Default 32.
	Workers *int `json:"workers,omitempty"`
}

// Maintenance configures how nodes are taken into maintenance.
type Maintenance struct {
	// Workers is how many NodeMaintenances are looked at at once. Default 16.
	Workers *int `json:"workers,omitempty"`
	// OutOfBandUncordon says what happens when another writer uncordons a node in maintenance: Repair cordons it again, with an event;
	// Report leaves it, stops the drain, and says so in the condition Cordoned. Default Repair.
	OutOfBandUncordon string `json:"outOfBandUncordon,omitempty"`
	// LeaseLossTimeout is how long the lease of a node that is not drained yet may have another holder before the maintenance fails and the
	// node is given back. Default 5m.
	LeaseLossTimeout *metav1.Duration `json:"leaseLossTimeout,omitempty"`
	// ControlPlaneGuard says whether control-plane nodes are guarded. With Auto, NodeMaintenances, deletions of Machines and remediation wait
	// until the control plane can spare the node; with Off none of them waits. Default Auto.
	ControlPlaneGuard string `json:"controlPlaneGuard,omitempty"`
	// Force says whether a NodeMaintenance may ask for pods to be deleted past their PodDisruptionBudgets (spec.drain.force), On or Off. With Off the
	// webhook refuses to have it asked for, and what asks for it already is drained by evictions alone. Default On.
	Force string `json:"force,omitempty"`
	// OutOfService says whether a NodeMaintenance may ask for the taint node.kubernetes.io/out-of-service on a node that does not answer
	// (spec.drain.unreachable: OutOfService), On or Off. With Off the webhook refuses to have it asked for, and what asks for it already waits for the
	// pods of such a node. Default On.
	OutOfService string `json:"outOfService,omitempty"`
}

// Upgrade configures the gate of node upgrades.
type Upgrade struct {
	// NodeVersion says where the version of a node is read: Label is the Node's label machineconfiguration.openshift.io/release-image-version,
	// MachineConfig the annotation of that name on the node's rendered MachineConfig, Auto the label where there is one, else the
	// MachineConfig. Default Auto.
	NodeVersion string `json:"nodeVersion,omitempty"`
	// Namespaces are those whose MutexRunConfigs, MutexTargets and MutexRules count. In every other namespace these objects have no effect, also
	// those that are older than this setting: Drover restores what such a run has changed, and says why in the object's status. Empty for all
	// namespaces. Default [].
	Namespaces []string `json:"namespaces,omitempty"`
}

// Machines configures how Machines are made, watched and removed.
type Machines struct {
	// Workers is how many Machines are worked on at once. A slow provider holds one for as long as a call of it takes. Default 100.
	Workers *int `json:"workers,omitempty"`
	// Parallel is how many requests of one MachineSet may be under way at once. Default 50.
	Parallel *int `json:"parallel,omitempty"`
	// InstanceCheck is how often the instance of a Machine that runs is looked at. Default 10m.
	InstanceCheck *metav1.Duration `json:"instanceCheck,omitempty"`
	// NodeDrainTimeout is how long after the deletion of a Machine its node is drained; then its instance goes with the pods that are left. 0 for
	// without end. The annotation drover.dev/node-drain-timeout of a Machine goes over it. Default 0s.
	NodeDrainTimeout *metav1.Duration `json:"nodeDrainTimeout,omitempty"`
	// VolumeDetachTimeout is how long the volumes of a node may take to be detached when its pods have gone, 0 for not waiting. Default 5m.
	VolumeDetachTimeout *metav1.Duration `json:"volumeDetachTimeout,omitempty"`
	// NodeDeletionTimeout is how long the deletion of the Node of a deleted Machine is tried after it has failed once, 0 for without end.
	// Default 0s.
	NodeDeletionTimeout *metav1.Duration `json:"nodeDeletionTimeout,omitempty"`
	// AdoptionNamespaces are the namespaces whose Machines may take over a Node that existed before the Machine: link it, and drain and delete
	// it with the Machine. "*" stands for all namespaces. A control-plane node is never adopted. Default namespace, or openshift-machine-api
	// where that is "".
	AdoptionNamespaces []string `json:"adoptionNamespaces,omitempty"`
	// Providers picks the providers that serve Machines as Controllers picks capabilities: "*" and "-name" for all but one; a list without "*" turns
	// on only what it names. "*" does not stand for those for tests, kwok and kubemark, which have to be named. Default ["*"].
	Providers []string `json:"providers,omitempty"`
	// ProviderOptions are settings by the name of a provider; docs/provider.md has those of each. Default none.
	ProviderOptions map[string]map[string]string `json:"providerOptions,omitempty"`
	// ReplaceFailed deletes Machines of a MachineSet that are Failed, one at a time, so that they are made anew. Default false.
	ReplaceFailed *bool `json:"replaceFailed,omitempty"`
}

// Webhook configures the admission webhook. It is served by every replica while maintenance or maintenance-kubevirt is among the
// controllers; the API server asks it once a ValidatingWebhookConfiguration says so.
type Webhook struct {
	// BindAddress is host:port, or "0" for no endpoint. Default ":9443".
	BindAddress *string `json:"bindAddress,omitempty"`
	// HTTP2 lets the API server use HTTP/2. Default false: HTTP/1.1 does, and is not open to the rapid reset of streams.
	HTTP2 *bool `json:"http2,omitempty"`
	// Certificates is Managed, when Drover makes and renews the certificate and puts its authority into the
	// ValidatingWebhookConfiguration, or Files, when another program does both, such as cert-manager or the Operator Lifecycle Manager.
	// Default Managed.
	Certificates string `json:"certificates,omitempty"`
	// CertDir holds tls.crt and tls.key, or apiserver.crt and apiserver.key, for Files. Default: the folder of the Operator Lifecycle
	// Manager, /apiserver.local.config/certificates.
	CertDir string `json:"certDir,omitempty"`
	// SecretName is the Secret in which replicas share a managed certificate, in the operator's own namespace. Default drover-webhook.
	SecretName string `json:"secretName,omitempty"`
	// ServiceName is the Service in the operator's own namespace by which the API server calls; a managed certificate has its names.
	// Default drover-webhook.
	ServiceName string `json:"serviceName,omitempty"`
	// ExtraNames are more names and addresses for a managed certificate.
	ExtraNames []string `json:"extraNames,omitempty"`
	// ValidatingConfigurationName is the ValidatingWebhookConfiguration that gets the authority of a managed certificate. Without one of
	// this name nothing is written. Default drover.
	ValidatingConfigurationName string `json:"validatingConfigurationName,omitempty"`
}

// Protected lists patterns of keys by kind.
type Protected struct {
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	// Taints are matched by key, whatever their effect.
	Taints []string `json:"taints,omitempty"`
}
