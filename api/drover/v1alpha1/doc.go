// Package v1alpha1 holds NodeGroup of drover.dev/v1alpha1: which nodes belong together, what they carry, and how they may be disrupted.
//
// +kubebuilder:object:generate=true
// +groupName=drover.dev
package v1alpha1
