package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// MutexRule is a Job that runs before a node is upgraded, and one that may run afterwards.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mutexrules,scope=Namespaced,categories=numo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Job Name",type=string,JSONPath=`.spec.jobName`
// +kubebuilder:printcolumn:name="Job Namespace",type=string,JSONPath=`.spec.jobNamespace`
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="ValidConfig")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MutexRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MutexRuleSpec `json:"spec,omitempty"`
	Status Status        `json:"status,omitempty"`
}

// MutexRuleList is a list of MutexRules.
//
// +kubebuilder:object:root=true
type MutexRuleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MutexRule `json:"items"`
}

// ConditionValid is the condition of a MutexRule, and of a MutexTarget, that reports whether it can be used.
const ConditionValid = "ValidConfig"

// RuleType says what a rule is made of.
//
// +kubebuilder:validation:Enum=kubernetes
type RuleType string

// RuleKubernetes is a rule of Kubernetes Jobs, the only kind there is.
const RuleKubernetes RuleType = "kubernetes"

// MutexRuleSpec says which Jobs, and where.
type MutexRuleSpec struct {
	// JobName begins the names of the rule's Jobs.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	JobName string `json:"jobName"`
	// JobNamespace is where the Jobs run.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	JobNamespace string `json:"jobNamespace"`
	// JobSpec is the spec of a batch/v1 Job that must succeed before a node is upgraded. Its containers are given the environment variables
	// NODE_NAME and MUTEX_RULE, unless they have them, and its pods stay off that node.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	JobSpec runtime.RawExtension `json:"jobSpec"`
	// CleanUpJobSpec is the same for a Job that runs after the node's upgrade.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	CleanUpJobSpec *runtime.RawExtension `json:"cleanUpJobSpec,omitempty"`
	// Type is what the rule is made of; empty is kubernetes.
	//
	// +optional
	Type RuleType `json:"type,omitempty"`
}

// Status holds the conditions of a MutexRule.
type Status struct {
	// ObservedGeneration is the generation of the spec that the conditions are about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions say whether the rule can be used.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MutexTarget names MachineConfigPools whose nodes are upgraded one after another.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mutextargets,scope=Namespaced,categories=numo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Machine Config Pools",type=string,JSONPath=`.spec.machineConfigPools`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MutexTarget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MutexTargetSpec   `json:"spec,omitempty"`
	Status MutexTargetStatus `json:"status,omitempty"`
}

// MutexTargetList is a list of MutexTargets.
//
// +kubebuilder:object:root=true
type MutexTargetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MutexTarget `json:"items"`
}

// MutexTargetSpec says which pools.
type MutexTargetSpec struct {
	// MachineConfigPools are the names of the pools.
	//
	// +kubebuilder:validation:MinItems=1
	// +listType=set
	MachineConfigPools []string `json:"machineConfigPools"`
}

// MutexTargetStatus says which nodes that are.
type MutexTargetStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes are the names of the pools' nodes, sorted, at most 500.
	//
	// +kubebuilder:validation:MaxItems=500
	// +optional
	Nodes []string `json:"nodes,omitempty"`
	// OmittedNodes is how many more nodes the pools have than Nodes lists.
	//
	// +optional
	OmittedNodes int32 `json:"omittedNodes,omitempty"`
	// Conditions say whether the pools were found.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
