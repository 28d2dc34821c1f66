package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MachineAutoscaler bounds how many replicas cluster-autoscaler gives a MachineSet.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ma
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ref Kind",type=string,JSONPath=`.spec.scaleTargetRef.kind`,description="Kind of object scaled"
// +kubebuilder:printcolumn:name="Ref Name",type=string,JSONPath=`.spec.scaleTargetRef.name`,description="Name of object scaled"
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.minReplicas`,description="Min number of replicas"
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.maxReplicas`,description="Max number of replicas"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MachineAutoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec says what is scaled, and within which bounds.
	// +optional
	Spec MachineAutoscalerSpec `json:"spec,omitzero"`
	// Status says what Drover has done.
	// +optional
	Status MachineAutoscalerStatus `json:"status,omitzero"`
}

// MachineAutoscalerSpec says what is scaled, and within which bounds.
//
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="max replicas must be greater than or equal to min"
type MachineAutoscalerSpec struct {
	// MinReplicas is how many replicas cluster-autoscaler leaves at least.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MinReplicas int32 `json:"minReplicas"`
	// MaxReplicas is how many replicas it makes at most.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxReplicas int32 `json:"maxReplicas"`
	// ScaleTargetRef is the MachineSet of the same namespace that is scaled: kind MachineSet of apiVersion machine.openshift.io/v1beta1.
	ScaleTargetRef CrossVersionObjectReference `json:"scaleTargetRef"`
}

// MachineAutoscalerStatus says what Drover has done.
type MachineAutoscalerStatus struct {
	// LastTargetRef is the MachineSet that has the bounds.
	// +optional
	LastTargetRef *CrossVersionObjectReference `json:"lastTargetRef,omitempty"`
	// Conditions say whether the MachineSet has the bounds, and why not. Drover adds them: the API of OpenShift's operator has none.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CrossVersionObjectReference identifies an object by API version, kind and name.
type CrossVersionObjectReference struct {
	// APIVersion is the group and version.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is the kind.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name is the name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MachineAutoscalerList is a list of MachineAutoscalers.
//
// +kubebuilder:object:root=true
type MachineAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineAutoscaler `json:"items"`
}
