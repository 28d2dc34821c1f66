// Package v1beta1 holds MachineAutoscaler of autoscaling.openshift.io/v1beta1: every field that OpenShift's cluster-autoscaler-operator serves, under
// its name, and what Drover adds to the status.
//
// +kubebuilder:object:generate=true
// +groupName=autoscaling.openshift.io
package v1beta1
