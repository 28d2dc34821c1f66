package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer keeps a NodeMaintenance until its node has been given back. The replaced operators use the same one, so either can finish what the
// other began.
const Finalizer = "foregroundDeleteNodeMaintenance"

// Phase says in one word where a maintenance stands.
type Phase string

// The phases. The schema does not list them, as node-maintenance-operator's does not.
const (
	// PhaseRunning: the node is being cordoned and drained.
	PhaseRunning Phase = "Running"
	// PhaseSucceeded: the node is drained.
	PhaseSucceeded Phase = "Succeeded"
	// PhaseFailed: the maintenance cannot go on, lastError says why.
	PhaseFailed Phase = "Failed"
)

// NodeMaintenance takes a node into maintenance for as long as it exists: the node is cordoned, tainted and drained, and given back as it
// was when the NodeMaintenance is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodemaintenances,scope=Cluster,shortName=nm
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Progress",type=integer,JSONPath=`.status.drainProgress`,description="Percent of the pods that have left"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type NodeMaintenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which node, and how it is drained.
	//
	// +required
	Spec   NodeMaintenanceSpec   `json:"spec,omitempty"`
	Status NodeMaintenanceStatus `json:"status,omitempty"`
}

// NodeMaintenanceList is a list of NodeMaintenances.
//
// +kubebuilder:object:root=true
type NodeMaintenanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeMaintenance `json:"items"`
}

// NodeMaintenanceSpec says which node, and how it is drained.
type NodeMaintenanceSpec struct {
	// NodeName is the name of the node. It cannot be changed.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="updating spec.NodeName isn't allowed"
	NodeName string `json:"nodeName"`
	// Reason says for people why the node is in maintenance.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Drain changes how the node is drained. Without it every pod but those of DaemonSets and static pods is evicted at once, with its
	// own grace period, for as long as it takes.
	//
	// +optional
	Drain *DrainSpec `json:"drain,omitempty"`
}

// Order says in which order pods are evicted.
//
// +kubebuilder:validation:Enum=None;Priority
type Order string

// The orders. The zero value is OrderNone.
const (
	// OrderNone: all pods at once.
	OrderNone Order = "None"
	// OrderPriority: the pods of a lower priority first, those of a higher one when they are gone.
	OrderPriority Order = "Priority"
)

// UnreachablePolicy says what becomes of pods that a node without a kubelet cannot end.
//
// +kubebuilder:validation:Enum=Wait;Ignore;OutOfService
type UnreachablePolicy string

// The policies. The zero value is UnreachableWait.
const (
	// UnreachableWait: wait for them.
	UnreachableWait UnreachablePolicy = "Wait"
	// UnreachableIgnore: do not wait for those that are past their grace period.
	UnreachableIgnore UnreachablePolicy = "Ignore"
	// UnreachableOutOfService: as Ignore, and give the node the taint node.kubernetes.io/out-of-service, which lets Kubernetes delete
	// the pods and detach their volumes. Only for nodes that are known to be switched off.
	UnreachableOutOfService UnreachablePolicy = "OutOfService"
)

// ReturningPolicy says what becomes of pods that their owner puts on the node again although it is cordoned.
//
// +kubebuilder:validation:Enum=Tolerating;Ignore;Wait
type ReturningPolicy string

// The policies. The zero value is ReturningTolerating.
const (
	// ReturningTolerating: those that tolerate the cordon stay, as pods of DaemonSets do; the others are evicted less and less often.
	ReturningTolerating ReturningPolicy = "Tolerating"
	// ReturningIgnore: all of them stay.
	ReturningIgnore ReturningPolicy = "Ignore"
	// ReturningWait: none stays; they are evicted less and less often, and the node is not drained before they stay away.
	ReturningWait ReturningPolicy = "Wait"
)

// Convention is a label or annotation of another project that exempts pods.
//
// +kubebuilder:validation:Enum=ClusterAPI;Karpenter
type Convention string

// The conventions.
const (
	// ConventionClusterAPI: the pod label cluster.x-k8s.io/drain with "skip" or "wait-completed".
	ConventionClusterAPI Convention = "ClusterAPI"
	// ConventionKarpenter: the pod annotation karpenter.sh/do-not-disrupt with "true", or a duration counted from the pod's start.
	ConventionKarpenter Convention = "Karpenter"
)

// DrainSpec changes how a node is drained. The zero value of each field is what node-maintenance-operator does.
//
// +kubebuilder:validation:XValidation:rule="!has(self.force) || !self.force || has(self.deadline)",message="force needs a deadline"
// +kubebuilder:validation:XValidation:rule="!has(self.volumesTimeout) || has(self.waitForVolumes) && self.waitForVolumes",message="volumesTimeout needs waitForVolumes"
type DrainSpec struct {
	// Deadline is how long the drain may take, counted from the cordon. After it the condition Drained says so; with force the pods that
	// are left are deleted. Empty is no deadline.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration above 0, such as 90s, 15m or 1h30m"
	Deadline *metav1.Duration `json:"deadline,omitempty"`
	// Force deletes the pods that would outlast the deadline, without asking their PodDisruptionBudgets. Each is deleted early enough to end
	// by the deadline within its grace period, and never gets less than one second.
	//
	// +optional
	Force bool `json:"force,omitempty"`
	// Order is the order of eviction.
	//
	// +optional
	Order Order `json:"order,omitempty"`
	// PodRules say what is done with some pods; the first rule that selects a pod counts.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	PodRules []PodRule `json:"podRules,omitempty"`
	// Honor lists conventions of other projects that are respected.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Honor []Convention `json:"honor,omitempty"`
	// MinimumTime is how long after the cordon the node is not called drained yet, for pods that were on their way to it.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration above 0, such as 90s, 15m or 1h30m"
	MinimumTime *metav1.Duration `json:"minimumTime,omitempty"`
	// Unreachable says what becomes of pods that a node without a kubelet cannot end.
	//
	// +optional
	Unreachable UnreachablePolicy `json:"unreachable,omitempty"`
	// ReturningPods says what becomes of pods that their owner puts on the node again although it is cordoned. Tolerating: those that tolerate
	// the cordon stay, as pods of DaemonSets do, and the others are evicted less and less often. Ignore: all of them stay. Wait: none stays, and
	// the node is not drained before they stay away. Empty is Tolerating.
	//
	// +optional
	ReturningPods ReturningPolicy `json:"returningPods,omitempty"`
	// WaitForVolumes waits, when the pods are gone, until their volumes are detached from the node.
	//
	// +optional
	WaitForVolumes bool `json:"waitForVolumes,omitempty"`
	// VolumesTimeout is how long it waits for them at most, counted from when the pods have gone. Empty is without end.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration above 0, such as 90s, 15m or 1h30m"
	VolumesTimeout *metav1.Duration `json:"volumesTimeout,omitempty"`
	// DryRun reports in the status what would be done, and does nothing to the node and its pods.
	//
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// Behavior says what a drain does with a pod.
//
// +kubebuilder:validation:Enum=Drain;Skip;WaitCompleted
type Behavior string

// The behaviours. The zero value is BehaviorDrain.
const (
	// BehaviorDrain: evict it.
	BehaviorDrain Behavior = "Drain"
	// BehaviorSkip: leave it on the node, and do not wait for it.
	BehaviorSkip Behavior = "Skip"
	// BehaviorWaitCompleted: never evict it, and wait until it has completed.
	BehaviorWaitCompleted Behavior = "WaitCompleted"
)

// PodRule says what is done with the pods that it selects.
//
// +kubebuilder:validation:XValidation:rule="!has(self.order) || !has(self.behavior) || self.behavior == 'Drain'",message="order is for the behavior Drain only"
type PodRule struct {
	// Namespaces are the namespaces that the rule is for; empty is all.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Namespaces []string `json:"namespaces,omitempty"`
	// PodSelector selects pods by their labels; empty selects all.
	//
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// Behavior is what is done with them.
	//
	// +optional
	Behavior Behavior `json:"behavior,omitempty"`
	// Order puts them into a group: the groups are evicted one after another, the lowest number first. Pods without one have 0.
	//
	// +kubebuilder:validation:Minimum=-2147483648
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Order *int32 `json:"order,omitempty"`
}

// PodReference names a pod.
type PodReference struct {
	// Namespace is the pod's namespace.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is the pod's name.
	//
	// +optional
	Name string `json:"name,omitempty"`
}

// NodeMaintenanceStatus says where a maintenance stands.
type NodeMaintenanceStatus struct {
	// Phase is Running, Succeeded or Failed.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// DrainProgress is how many of the pods have left, in percent, 0 to 100.
	//
	// +optional
	DrainProgress int `json:"drainProgress,omitempty"`
	// LastUpdate is when this status last changed.
	//
	// +optional
	LastUpdate *metav1.Time `json:"lastUpdate,omitempty"`
	// LastError says what is wrong now; empty when nothing is.
	//
	// +optional
	LastError string `json:"lastError,omitempty"`
	// PendingPods are the names of the pods that have still to leave, at most 500. Names of several namespaces are distinguished in
	// PendingPodsRefs.
	//
	// +kubebuilder:validation:MaxItems=500
	// +optional
	PendingPods []string `json:"pendingPods,omitempty"`
	// PendingPodsRefs are the same pods with their namespaces.
	//
	// +kubebuilder:validation:MaxItems=500
	// +optional
	PendingPodsRefs []PodReference `json:"pendingPodsRefs,omitempty"`
	// PendingPodsOmitted is how many more pods have still to leave than PendingPods lists.
	//
	// +optional
	PendingPodsOmitted int `json:"pendingPodsOmitted,omitempty"`
	// TotalPods is the number of all pods on the node when the maintenance began.
	//
	// +optional
	TotalPods int `json:"totalpods,omitempty"`
	// EvictionPods is the number of pods that have to leave, those that came late included.
	//
	// +optional
	EvictionPods int `json:"evictionPods,omitempty"`
	// ErrorOnLeaseCount is how often in a row the node's lease could not be renewed; attempts are a minute apart.
	//
	// +optional
	ErrorOnLeaseCount int `json:"errorOnLeaseCount,omitempty"`
	// ObservedGeneration is the generation that this status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Cordoned, Drained and LeaseHeld.
	//
	// +kubebuilder:validation:MaxItems=32
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
