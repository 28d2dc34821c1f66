// Package v1beta1 holds NodeMaintenance of nodemaintenance.medik8s.io/v1beta1: every field that the node-maintenance-operator serves,
// under its names, and what Drover adds. Everything added is optional.
//
// +kubebuilder:object:generate=true
// +groupName=nodemaintenance.medik8s.io
package v1beta1
