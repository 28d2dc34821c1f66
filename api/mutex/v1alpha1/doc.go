// Package v1alpha1 holds MutexRule, MutexTarget and MutexRunConfig of openshift-optional.skrzypek.io/v1alpha1: every field that the
// openshift-node-upgrade-mutex-operator serves, under its names, and what Drover adds. Everything added is optional.
//
// +kubebuilder:object:generate=true
// +groupName=openshift-optional.skrzypek.io
package v1alpha1
