package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// The group, version and kind that a configuration file must name.
const (
	APIVersion = "config.drover.dev/v1alpha1"
	Kind       = "DroverConfiguration"
)

// DroverConfiguration is the content of the file that --config names. Everything in it is optional; a field that is left out has the default that
// its comment names. A flag on the command line overrides the file.
type DroverConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Controllers picks capabilities as kube-controller-manager does: "*" for all, "name" for one, "*" and "-name" for all but one; a list
	// without "*" turns on only what it names. The first entry that names a capability counts. Default ["*"].
	Controllers []string `json:"controllers,omitempty"`
	// Namespace is the namespace of MachineSets and Machines; "" means all namespaces. Default openshift-machine-api.
	Namespace *string `json:"namespace,omitempty"`
	// LeaderElection elects one of several replicas as the leader; the others stand by.
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
	// NodeGroups are the settings of the capability node-groups.
	NodeGroups NodeGroups `json:"nodeGroups,omitempty"`
	// Upgrade are the settings of the capability of that name.
	Upgrade Upgrade `json:"upgrade,omitempty"`
	// Webhook is the endpoint by which the API server asks whether a NodeMaintenance may be created or changed.
	Webhook Webhook `json:"webhook,omitempty"`
}

// LeaderElection configures the lease by which the replicas elect a leader.
type LeaderElection struct {
	// Enabled turns leader election on. Default true.
	Enabled *bool `json:"enabled,omitempty"`
	// Namespace is the namespace of the lease. Default: the namespace of the Pod.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the lease. Default drover.
	Name string `json:"name,omitempty"`
	// LeaseDuration is how long the other replicas wait for a leader that does not renew the lease. Default 15s.
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long a leader tries to renew the lease before its process ends; shorter than leaseDuration. Default 10s.
	RenewDeadline *metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the time between two renewals of the lease; shorter than renewDeadline. The other replicas look four times as often whether it is
	// free. Default 2s.
	RetryPeriod *metav1.Duration `json:"retryPeriod,omitempty"`
}

// Metrics configures the metrics endpoint.
type Metrics struct {
	// BindAddress is the address as host:port, or "0" for no endpoint. Default ":8443".
	BindAddress *string `json:"bindAddress,omitempty"`
	// Secure serves /metrics over TLS, and only to callers that the API server allows to get /metrics. Default true.
	Secure *bool `json:"secure,omitempty"`
	// CertDir is the folder with tls.crt and tls.key. Default: a certificate that each Pod creates when it starts.
	CertDir string `json:"certDir,omitempty"`
	// HTTP2 lets callers of /metrics use HTTP/2. With HTTP/1.1 alone, they cannot open and reset many streams on one connection (CVE-2023-44487).
	// Default false.
	HTTP2 *bool `json:"http2,omitempty"`
}

// Health configures the probes' endpoint.
type Health struct {
	// BindAddress is the address as host:port, or "0" for no endpoint. Default ":8081".
	BindAddress *string `json:"bindAddress,omitempty"`
}

// Log configures logging.
type Log struct {
	// Format is the format of the log: json or text. Default json.
	Format string `json:"format,omitempty"`
	// Verbosity is 0 for what users of the operator need, 1 to also log each write, 4 for debugging, and at most 7. Default 0.
	Verbosity *int `json:"verbosity,omitempty"`
}

// Metadata configures how Drover applies labels, annotations and taints to Machines and Nodes.
type Metadata struct {
	// Workers is how many Machines are reconciled at the same time. Default 32.
	Workers *int `json:"workers,omitempty"`
	// WritesPerSecond limits how many Nodes are written per second: the API server sends every write to each watcher of Nodes, of which a large
	// cluster has a thousand. 0 means no limit. Default 100.
	WritesPerSecond *float64 `json:"writesPerSecond,omitempty"`
	// WritesBurst is how many Nodes may be written without delay after a pause. Default 100.
	WritesBurst *int `json:"writesBurst,omitempty"`
	// Rollout is how a change of a MachineSet reaches the Machines and Nodes that it has. New Nodes, and what another writer has changed on the others,
	// do not wait for a wave. Default none: all Nodes at once, with the taints that have the effect NoExecute.
	Rollout *MachineSetRollout `json:"rollout,omitempty"`
	// Protected are patterns of keys that Drover never sets or removes, in addition to the built-in ones (docs/keys-of-the-system.md). `*` matches any
	// text.
	Protected Protected `json:"protected,omitempty"`
	// Unprotected are built-in patterns that Drover is not to protect, each written as in docs/keys-of-the-system.md.
	Unprotected Protected `json:"unprotected,omitempty"`
}

// MachineSetRollout has a change of a MachineSet reach its Nodes in waves, as spec.rollout of a NodeGroup has.
type MachineSetRollout struct {
	// MaxInFlight is how many Nodes a wave has: a number, or a percentage of the Nodes that the MachineSet has when the roll-out begins, rounded up.
	// Default 100%.
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
	// FirstWave is how many Nodes the first wave has, and at most maxInFlight. Default maxInFlight.
	FirstWave *int32 `json:"firstWave,omitempty"`
	// Pause is the time from the end of a wave to the beginning of the next one; at most 168h. Default 0s.
	Pause *metav1.Duration `json:"pause,omitempty"`
	// MinReadySeconds is how long the Nodes of a wave must have been Ready before the next one, counted from when they became Ready. Default 0.
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// StopWhen says what stops a roll-out until the labels, annotations or taints of the template change, or a user resumes it.
	StopWhen MachineSetStop `json:"stopWhen,omitempty"`
	// NoExecute says how taints with the effect NoExecute are set.
	NoExecute MachineSetNoExecute `json:"noExecute,omitempty"`
}

// MachineSetStop says what stops the roll-out of a MachineSet.
type MachineSetStop struct {
	// NotReady stops it when as many Nodes of the MachineSet have become NotReady since it began, and are so at the same time: a number, or a
	// percentage of its Nodes, rounded up. Default 10%.
	NotReady *intstr.IntOrString `json:"notReady,omitempty"`
}

// MachineSetNoExecute says how taints of MachineSets with the effect NoExecute are set.
type MachineSetNoExecute struct {
	// Policy is Allow or Refuse. With Refuse, an existing Node gets such a taint of its MachineSet only if a NodeGroup that selects the MachineSet
	// (spec.nodes.machineSets) sets or allows it. Default Allow.
	Policy string `json:"policy,omitempty"`
}

// Drain configures how Pods are evicted and deleted, on all nodes together.
type Drain struct {
	// RequestsPerSecond limits evictions and deletions of Pods per second. 0 means no limit. Default 100.
	RequestsPerSecond *float64 `json:"requestsPerSecond,omitempty"`
	// Burst is how many evictions and deletions may be sent without delay after a pause. Default 200.
	Burst *int `json:"burst,omitempty"`
	// Workers is how many evictions and deletions may be in progress at the same time, not counting those without an answer for a second. Default 32.
	Workers *int `json:"workers,omitempty"`
}

// Maintenance configures how nodes are taken into maintenance.
type Maintenance struct {
	// Workers is how many NodeMaintenances are reconciled at the same time. Default 16.
	Workers *int `json:"workers,omitempty"`
	// OutOfBandUncordon says what happens when another writer uncordons a node in maintenance: Repair cordons it again, with an event;
	// Report leaves it, stops the drain, and says so in the condition Cordoned. Default Repair.
	OutOfBandUncordon string `json:"outOfBandUncordon,omitempty"`
	// LeaseLossTimeout is how long another holder may have the lease of a node that is not drained yet, before the maintenance fails and Drover
	// restores the node. Default 5m.
	LeaseLossTimeout *metav1.Duration `json:"leaseLossTimeout,omitempty"`
	// ControlPlaneGuard says whether control-plane nodes are guarded. With Auto, NodeMaintenances, deletions of Machines and remediation wait
	// until the control plane can spare the node; with Off none of them waits. Default Auto.
	ControlPlaneGuard string `json:"controlPlaneGuard,omitempty"`
	// Force says whether a NodeMaintenance may request the deletion of Pods in spite of their PodDisruptionBudgets (spec.drain.force): On or Off.
	// With Off the webhook refuses such a request, and Drover only evicts the Pods of a NodeMaintenance that has it already. Default On.
	Force string `json:"force,omitempty"`
	// OutOfService says whether a NodeMaintenance may request the taint node.kubernetes.io/out-of-service on a node that does not respond
	// (spec.drain.unreachable: OutOfService): On or Off. With Off the webhook refuses such a request, and a NodeMaintenance that has it already
	// waits for the Pods of the node. Default On.
	OutOfService string `json:"outOfService,omitempty"`
}

// Upgrade configures the gate of node upgrades.
type Upgrade struct {
	// NodeVersion says where Drover reads the version of a node. Label is the label machineconfiguration.openshift.io/release-image-version of the
	// Node, MachineConfig the annotation of that name on the node's rendered MachineConfig, Auto the lower of both, or the one that is known.
	// Default Auto.
	NodeVersion string `json:"nodeVersion,omitempty"`
	// Namespaces are the namespaces whose MutexRunConfigs, MutexTargets and MutexRules have an effect, also those that are older than this setting.
	// In other namespaces Drover restores what a run has changed, and says why in the status of the object. An empty list means all namespaces.
	// Default [].
	Namespaces []string `json:"namespaces,omitempty"`
}

// Machines configures how Machines are created, watched and deleted.
type Machines struct {
	// Workers is how many Machines are reconciled at the same time. A slow provider occupies one worker for as long as its call takes. Default 100.
	Workers *int `json:"workers,omitempty"`
	// Parallel is how many requests of one MachineSet may be in progress at the same time. Default 50.
	Parallel *int `json:"parallel,omitempty"`
	// InstanceCheck is how often Drover checks the instance of a running Machine. Default 10m.
	InstanceCheck *metav1.Duration `json:"instanceCheck,omitempty"`
	// NodeDrainTimeout is how long after the deletion of a Machine its node may be drained; then Drover deletes the instance with the Pods that are
	// left. 0 means no limit. The annotation drover.dev/node-drain-timeout of a Machine overrides it. Default 0s.
	NodeDrainTimeout *metav1.Duration `json:"nodeDrainTimeout,omitempty"`
	// VolumeDetachTimeout is how long the volumes of a node may take to detach after its Pods are gone. 0 means that Drover does not wait for them.
	// Default 5m.
	VolumeDetachTimeout *metav1.Duration `json:"volumeDetachTimeout,omitempty"`
	// NodeDeletionTimeout is how long Drover tries to delete the Node of a deleted Machine after the deletion has failed once. 0 means no limit.
	// Default 0s.
	NodeDeletionTimeout *metav1.Duration `json:"nodeDeletionTimeout,omitempty"`
	// AdoptionNamespaces are the namespaces whose Machines may take over a Node that existed before the Machine: Drover then links, drains and
	// deletes the Node with the Machine. "*" means all namespaces. A control-plane node is never adopted. Default: the namespace of MachineSets and
	// Machines, or openshift-machine-api if that is "".
	AdoptionNamespaces []string `json:"adoptionNamespaces,omitempty"`
	// Providers picks the providers that serve Machines: "*" for all but kwok, kubemark and vsphere, which have to be named, "name" for one, "*" and
	// "-name" for all but one; a list without "*" turns on only what it names. Default ["*"].
	Providers []string `json:"providers,omitempty"`
	// ProviderOptions are settings by the name of a provider; docs/provider.md lists those of kubemark, docs/vsphere.md those of
	// vsphere. Default none.
	ProviderOptions map[string]map[string]string `json:"providerOptions,omitempty"`
	// ReplaceFailed deletes Failed Machines of MachineSets, one at a time, so that they are replaced. Default false.
	ReplaceFailed *bool `json:"replaceFailed,omitempty"`
	// Remediation limits how fast MachineHealthChecks remediate, and by what.
	Remediation Remediation `json:"remediation,omitempty"`
}

// Remediation limits how fast MachineHealthChecks remediate, and by what. Annotations of a MachineHealthCheck override the limits.
type Remediation struct {
	// MaxInFlight is how many remediations may be in flight at the same time in the MachineSets whose Machines a MachineHealthCheck selects: a
	// number, or a percentage of the Machines that it selects, rounded up. A remediation is in flight until the Node of the replacement is Ready,
	// or the replacement is 30 minutes old. Without it, or with 100%, there is no limit, as in machine-api-operator. The annotation
	// drover.dev/max-remediations-in-flight of a MachineHealthCheck overrides it. Default none.
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
	// MinInterval is the shortest time between two remediations in those MachineSets, at most 24 hours; 0 means none. The annotation
	// drover.dev/remediation-interval of a MachineHealthCheck overrides it. Default 0s.
	MinInterval *metav1.Duration `json:"minInterval,omitempty"`
	// TemplateKinds are the kinds that spec.remediationTemplate of a MachineHealthCheck may name, each written Kind.group: Drover creates and deletes
	// remediation requests of the kinds without the ending Template, which must be namespaced. A list replaces the default, which has the kinds of
	// medik8s and metal3. Give Drover the permissions for each kind that you add. Kinds of Kubernetes, OpenShift, the Cluster API's core and Drover
	// are invalid.
	TemplateKinds []string `json:"templateKinds,omitempty"`
}

// NodeGroups configures the capability node-groups.
type NodeGroups struct {
	// Rollout is the spec.rollout of the NodeGroups that have none, with the same fields and defaults. A group that has one gets nothing of this one.
	// Default none: all Nodes at once, and NoExecute: Guard.
	Rollout *v1alpha1.Rollout `json:"rollout,omitempty"`
}

// Webhook configures the admission webhook. Every replica serves it while maintenance or maintenance-kubevirt is among the controllers; the API
// server calls it if there is a ValidatingWebhookConfiguration.
type Webhook struct {
	// BindAddress is the address as host:port, or "0" for no endpoint. Default ":9443".
	BindAddress *string `json:"bindAddress,omitempty"`
	// HTTP2 lets the API server use HTTP/2. With HTTP/1.1 alone, callers cannot open and reset many streams on one connection (CVE-2023-44487).
	// Default false.
	HTTP2 *bool `json:"http2,omitempty"`
	// Certificates is Managed or Files. With Managed, Drover creates and renews a self-signed certificate, and writes it into caBundle of the
	// ValidatingWebhookConfiguration. With Files, another program does both, such as cert-manager or the Operator Lifecycle Manager. Default
	// Managed.
	Certificates string `json:"certificates,omitempty"`
	// CertDir is the folder with tls.crt and tls.key, or apiserver.crt and apiserver.key, for Files. Default: the folder of the Operator Lifecycle
	// Manager, /apiserver.local.config/certificates.
	CertDir string `json:"certDir,omitempty"`
	// SecretName is the Secret in which the replicas share a managed certificate, in the namespace of the operator. Default drover-webhook.
	SecretName string `json:"secretName,omitempty"`
	// ServiceName is the Service by which the API server calls the webhook, in the namespace of the operator; a managed certificate has its names.
	// Default drover-webhook.
	ServiceName string `json:"serviceName,omitempty"`
	// ExtraNames are additional names and addresses in a managed certificate.
	ExtraNames []string `json:"extraNames,omitempty"`
	// ValidatingConfigurationName is the ValidatingWebhookConfiguration into whose caBundle Drover writes a managed certificate. If there is none
	// of this name, Drover writes nothing. Default drover.
	ValidatingConfigurationName string `json:"validatingConfigurationName,omitempty"`
}

// Protected has patterns of keys, by kind.
type Protected struct {
	// Labels are patterns of label keys.
	Labels []string `json:"labels,omitempty"`
	// Annotations are patterns of annotation keys.
	Annotations []string `json:"annotations,omitempty"`
	// Taints are patterns of taint keys; the effect of the taint does not matter.
	Taints []string `json:"taints,omitempty"`
}
