package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Finalizer keeps a NodeGroup until its Nodes have been released.
const Finalizer = "drover.dev/node-group"

// AnnotationResume resumes a roll-out, or a replacement of Machines, that has stopped: its value is a time in RFC 3339 that is not before the stop. A
// time in the future resumes it then. kubectl drover rollout resume sets it.
const AnnotationResume = "drover.dev/resume-rollout"

// AnnotationConfirm names labels, separated by commas, that a roll-out may take from Nodes or give another value although Pods or PersistentVolumes
// require Nodes as they are, then @ and a time in RFC 3339 that is not before the beginning of the roll-out (status.rollout.startTime): it confirms
// no later one. A time in the future counts then. kubectl drover rollout resume --confirm-label-changes sets it.
const AnnotationConfirm = "drover.dev/confirm-label-changes"

// NodeGroup says which Nodes belong together, what they carry, and how they may be disrupted.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodegroups,scope=Cluster,shortName=ng
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Synced",type=integer,JSONPath=`.status.synced`
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=`.status.unavailable`
// +kubebuilder:printcolumn:name="Budget",type=integer,JSONPath=`.status.budget`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Wave",type=string,JSONPath=`.status.rollout.wave`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name: must be at most 63 characters"
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says which Nodes, and what becomes of them.
	//
	// +required
	Spec   NodeGroupSpec   `json:"spec,omitempty"`
	Status NodeGroupStatus `json:"status,omitempty"`
}

// NodeGroupList is a list of NodeGroups.
//
// +kubebuilder:object:root=true
type NodeGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeGroup `json:"items"`
}

// NodeGroupSpec says which Nodes belong to a group, and what becomes of them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replacement) || self.replacement.type == 'None' || has(self.nodes.machineSets)",message="replacement: needs nodes.machineSets, because only Machines can be replaced"
// +kubebuilder:validation:XValidation:rule="!has(self.replacement) || self.replacement.type == 'None' || !has(self.replacement.maxSurge) || (type(self.replacement.maxSurge) == string ? self.replacement.maxSurge != '0%' : self.replacement.maxSurge != 0) || has(self.disruption)",message="replacement: with maxSurge 0 old Machines go first, which needs a budget: set disruption.maxUnavailable"
// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || !has(self.metadata.setOnceTaints) || !has(self.rollout) || !has(self.rollout.noExecute) || self.rollout.noExecute.policy != 'Refuse' || !self.metadata.setOnceTaints.exists(t, t.effect == 'NoExecute')",message="metadata.setOnceTaints: rollout.noExecute.policy is Refuse, so that no taint may have the effect NoExecute"
// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || !has(self.metadata.taints) || !has(self.rollout) || !has(self.rollout.noExecute) || self.rollout.noExecute.policy != 'Refuse' || !self.metadata.taints.exists(t, t.effect == 'NoExecute')",message="metadata.taints: rollout.noExecute.policy is Refuse, so that no taint may have the effect NoExecute"
type NodeGroupSpec struct {
	// Nodes says which Nodes belong to the group. A Node that several groups select belongs to the oldest of them.
	Nodes NodeSelection `json:"nodes"`
	// Metadata is what the group's Nodes carry.
	//
	// +optional
	Metadata *Metadata `json:"metadata,omitempty"`
	// Rollout paces changes of metadata. Without it all Nodes are written at once; releaseDelay, stopWhen.notReady and noExecute have their defaults.
	//
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`
	// Disruption bounds how many Nodes Drover makes unavailable at once, and when. Without it the group has neither a budget nor windows.
	//
	// +optional
	Disruption *Disruption `json:"disruption,omitempty"`
	// Replacement replaces Machines that no longer match the template of their MachineSet. Drover replaces Machines that it creates itself: the
	// capability machines has to be on.
	//
	// +optional
	Replacement *Replacement `json:"replacement,omitempty"`
	// Suspend stops everything that the group does: Drover writes nothing for the group, replaces no Machine, and begins no disruption of a Node, except
	// for NodeMaintenances of users unless disruption.personMaintenance is Queue. MachineSets still apply their own metadata. A drain or an upgrade that
	// has begun is completed. Evictions for a taint with the effect NoExecute stop, and the Node keeps the taint with the effect NoSchedule until the
	// group is resumed.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// DryRun computes the status, and writes no Node and no Machine for the group. The budget counts as it does without it.
	//
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// RevisionHistoryLimit is how many earlier revisions are kept for kubectl drover rollout undo.
	//
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// NodeSelection says which Nodes belong to a group, in one of three ways.
//
// +kubebuilder:validation:XValidation:rule="[has(self.selector), has(self.machineSets), has(self.clusterAPI)].filter(x, x).size() == 1",message="exactly one of selector, machineSets and clusterAPI must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.selector) || (has(self.selector.matchLabels) && size(self.selector.matchLabels) > 0) || (has(self.selector.matchExpressions) && size(self.selector.matchExpressions) > 0)",message="selector: must not be empty; it would select every Node of the cluster"
type NodeSelection struct {
	// Selector selects Nodes by their labels.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 64",message="matchLabels: must have at most 64 labels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 64",message="matchExpressions: must have at most 64 items"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator == 'In' || e.operator == 'NotIn' || e.operator == 'Exists' || e.operator == 'DoesNotExist')",message="matchExpressions: the operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator == 'In' || e.operator == 'NotIn') == (has(e.values) && size(e.values) > 0))",message="matchExpressions: In and NotIn need values, and Exists and DoesNotExist must not have any"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// MachineSets selects the Nodes of MachineSets of machine.openshift.io.
	//
	// +optional
	MachineSets *MachineSetSelection `json:"machineSets,omitempty"`
	// ClusterAPI selects the Nodes whose annotations name an owner in the Cluster API.
	//
	// +optional
	ClusterAPI *ClusterAPIOwner `json:"clusterAPI,omitempty"`
	// IncludeControlPlane also selects Nodes of the control plane: those with the label node-role.kubernetes.io/control-plane or
	// node-role.kubernetes.io/master.
	//
	// +optional
	IncludeControlPlane bool `json:"includeControlPlane,omitempty"`
}

// MachineSetSelection selects MachineSets of one namespace: all of them, those with a name, or those that a selector matches.
//
// +kubebuilder:validation:XValidation:rule="!has(self.names) || !has(self.selector)",message="names and selector cannot be set both"
type MachineSetSelection struct {
	// Namespace is the namespace of the MachineSets.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Names are names of MachineSets.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Names []string `json:"names,omitempty"`
	// Selector selects MachineSets by their labels.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 64",message="matchLabels: must have at most 64 labels"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 64",message="matchExpressions: must have at most 64 items"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator == 'In' || e.operator == 'NotIn' || e.operator == 'Exists' || e.operator == 'DoesNotExist')",message="matchExpressions: the operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator == 'In' || e.operator == 'NotIn') == (has(e.values) && size(e.values) > 0))",message="matchExpressions: In and NotIn need values, and Exists and DoesNotExist must not have any"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// OwnerKind is a kind of the Cluster API that owns Machines.
//
// +kubebuilder:validation:Enum=MachineDeployment;MachineSet;MachinePool;KubeadmControlPlane
type OwnerKind string

// The kinds of owners. A Node's annotation never names a MachineDeployment: its Nodes are those of its MachineSets.
const (
	OwnerMachineDeployment   OwnerKind = "MachineDeployment"
	OwnerMachineSet          OwnerKind = "MachineSet"
	OwnerMachinePool         OwnerKind = "MachinePool"
	OwnerKubeadmControlPlane OwnerKind = "KubeadmControlPlane"
)

// ClusterAPIOwner names an object of the Cluster API that owns Machines. The Cluster API writes it to annotations of the Nodes of its workload
// clusters: https://github.com/kubernetes-sigs/cluster-api/blob/v1.12.0/api/core/v1beta2/common_types.go
type ClusterAPIOwner struct {
	// ClusterName is the name of the Cluster.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName"`
	// ClusterNamespace is the namespace of the Cluster; empty is any.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ClusterNamespace string `json:"clusterNamespace,omitempty"`
	// Kind is the kind of the owner.
	Kind OwnerKind `json:"kind"`
	// Name is the name of the owner.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ConflictPolicy says what happens to a key that another writer has set.
//
// +kubebuilder:validation:Enum=Keep;Adopt;Fail
type ConflictPolicy string

// The policies.
const (
	// ConflictKeep leaves the other value, and reports the conflict.
	ConflictKeep ConflictPolicy = "Keep"
	// ConflictAdopt overwrites the other value.
	ConflictAdopt ConflictPolicy = "Adopt"
	// ConflictFail changes nothing on a Node with a conflict.
	ConflictFail ConflictPolicy = "Fail"
)

// ReleasePolicy says what happens to a group's metadata on a Node that leaves the group.
//
// +kubebuilder:validation:Enum=Keep;Remove
type ReleasePolicy string

// The policies.
const (
	// ReleaseKeep leaves it there, and Drover no longer owns it.
	ReleaseKeep ReleasePolicy = "Keep"
	// ReleaseRemove removes it.
	ReleaseRemove ReleasePolicy = "Remove"
)

// Metadata is what the Nodes of a group carry.
//
// +kubebuilder:validation:XValidation:rule="!has(self.taints) || !has(self.setOnceTaints) || self.taints.all(t, !self.setOnceTaints.exists(o, o.key == t.key && o.effect == t.effect))",message="setOnceTaints: a taint with the same key and effect is in taints"
type Metadata struct {
	// Labels of the Nodes.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && size(k) <= 317)",message="a key must be a qualified name, such as example.com/team"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 63 && self[k].matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$'))",message="a value must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Annotations of the Nodes.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && size(k) <= 317)",message="a key must be a qualified name, such as example.com/team"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
	// Taints of the Nodes.
	//
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=32
	Taints []Taint `json:"taints,omitempty"`
	// SetOnceTaints are set when Drover first writes a Node, and never again: others may remove them. One with the effect NoExecute is held back unless
	// spec.rollout.noExecute.policy is Allow.
	//
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=32
	SetOnceTaints []Taint `json:"setOnceTaints,omitempty"`
	// ConflictPolicy says what happens to keys that another writer has set.
	//
	// +optional
	// +kubebuilder:default=Keep
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`
	// OnRelease says what happens to what the group has set on a Node that has left the group for spec.rollout.releaseDelay, and on all of them when the
	// group is deleted.
	//
	// +optional
	// +kubebuilder:default=Keep
	OnRelease ReleasePolicy `json:"onRelease,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// Taint is a taint that a group declares.
type Taint struct {
	// Key of the taint, a qualified name.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a qualified name, such as example.com/dedicated"
	Key string `json:"key"`
	// Value of the taint.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$')",message="must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or a digit"
	Value string `json:"value,omitempty"`
	// Effect of the taint.
	//
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect"`
}

// Rollout paces changes of metadata.
//
// +kubebuilder:validation:XValidation:rule="!has(self.firstWave) || !has(self.maxInFlight) || type(self.maxInFlight) == string || self.firstWave <= self.maxInFlight",message="firstWave must not be above maxInFlight"
type Rollout struct {
	// MaxInFlight is how many Nodes a wave has: they are changed at once. A percentage is of the Nodes that the group has when the roll-out begins,
	// rounded up.
	//
	// +optional
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9][0-9]?)%$') : (self >= 1 && self <= 100000)",message="must be between 1 and 100000, or 1% and 100%"
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
	// FirstWave is how many Nodes the first wave has, and at most MaxInFlight; absent is MaxInFlight.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	FirstWave *int32 `json:"firstWave,omitempty"`
	// Pause is the time from the end of a wave to the beginning of the next one.
	//
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+)$') && duration(self) <= duration('168h')",message="must be a duration of at most 168h, such as 10m"
	Pause *metav1.Duration `json:"pause,omitempty"`
	// MinReadySeconds is how long the Nodes of a wave must have been Ready before the next one, counted from when they became Ready, not from the write.
	// It is also how long a Node must be available again before it frees its place in the budget.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// ReleaseDelay is how long a Node has been out of the group when Drover releases it; 0s is at once. One that comes back before is as it was: nothing
	// has been removed, and taints of setOnceTaints are not set again. The deletion of the group releases its Nodes without a delay, and a Node that
	// another group selects gets what that one declares without it.
	//
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+)$') && duration(self) <= duration('168h')",message="must be a duration of at most 168h, such as 1m"
	ReleaseDelay *metav1.Duration `json:"releaseDelay,omitempty"`
	// StopWhen says what stops a roll-out until spec.metadata changes, a user resumes it, or the spec changes otherwise and the condition does not
	// hold any more.
	//
	// +optional
	// +kubebuilder:default={}
	StopWhen *StopConditions `json:"stopWhen,omitempty"`
	// NoExecute says how taints with the effect NoExecute are set.
	//
	// +optional
	// +kubebuilder:default={}
	NoExecute *NoExecute `json:"noExecute,omitempty"`
}

// StopConditions say what stops a roll-out.
type StopConditions struct {
	// NotReady stops the roll-out when as many of the group's Nodes have become NotReady since it began, and are so at the same time. A percentage is of
	// the group's Nodes, rounded up. Nodes that were created since do not count, nor do those that are being deleted, updated or restarted on purpose.
	//
	// +optional
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9][0-9]?)%$') : (self >= 1 && self <= 100000)",message="must be between 1 and 100000, or 1% and 100%"
	NotReady *intstr.IntOrString `json:"notReady,omitempty"`
	// PendingPods stops the roll-out when as many Pods that fit the group's Nodes have become unschedulable since it began, and have been so for two
	// minutes; absent is never. More than 200 are not counted.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=200
	PendingPods *int32 `json:"pendingPods,omitempty"`
}

// NoExecutePolicy says how taints with the effect NoExecute are set.
//
// +kubebuilder:validation:Enum=Guard;Refuse;Allow
type NoExecutePolicy string

// The policies.
const (
	// NoExecuteGuard evicts the Pods that do not tolerate the taint within their PodDisruptionBudgets, and sets the taint when they are gone.
	NoExecuteGuard NoExecutePolicy = "Guard"
	// NoExecuteRefuse sets no such taint.
	NoExecuteRefuse NoExecutePolicy = "Refuse"
	// NoExecuteAllow sets the taint at once. Kubernetes then deletes the Pods without regard to PodDisruptionBudgets.
	NoExecuteAllow NoExecutePolicy = "Allow"
)

// TimeoutPolicy says what happens when the guard of a NoExecute taint has waited for too long.
//
// +kubebuilder:validation:Enum=Hold;Proceed
type TimeoutPolicy string

// The policies.
const (
	// TimeoutHold reports the Pods that are left, gives the Node's place in the budget to others, and tries again later. The taint with the effect
	// NoSchedule, which keeps further Pods away, stays.
	TimeoutHold TimeoutPolicy = "Hold"
	// TimeoutProceed sets the taint. Kubernetes then deletes the Pods that are left.
	TimeoutProceed TimeoutPolicy = "Proceed"
)

// NoExecute says how taints with the effect NoExecute are set.
//
// +kubebuilder:validation:XValidation:rule="!has(self.onTimeout) || self.onTimeout == 'Hold' || has(self.timeout)",message="onTimeout: Proceed needs a timeout"
type NoExecute struct {
	// Policy is Guard (evict within PodDisruptionBudgets first), Refuse (accept no such taint) or Allow (set the taint at once).
	//
	// +optional
	// +kubebuilder:default=Guard
	Policy NoExecutePolicy `json:"policy,omitempty"`
	// MaxPodsPerNode is how many Pods may be evicted from a Node; absent is any number. On a Node with more the taint is held back.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MaxPodsPerNode *int32 `json:"maxPodsPerNode,omitempty"`
	// MaxPodsPerWave is how many Pods may be evicted in a wave; absent is any number. On a Node with which there would be more the taint is held back.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MaxPodsPerWave *int32 `json:"maxPodsPerWave,omitempty"`
	// Timeout is how long the evictions of a Node may take; absent is 30m. After it the next attempt waits as long, and twice as long each time, up
	// to six hours.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s') && duration(self) <= duration('168h')",message="must be a duration above 0 and of at most 168h, such as 15m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// OnTimeout says what happens after the timeout.
	//
	// +optional
	// +kubebuilder:default=Hold
	OnTimeout TimeoutPolicy `json:"onTimeout,omitempty"`
}
