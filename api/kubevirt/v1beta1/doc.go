// Package v1beta1 holds NodeMaintenance of nodemaintenance.kubevirt.io/v1beta1, the older of the two groups. Its status may hold
// everything that the newer one's does; its spec knows no drain options.
//
// +kubebuilder:object:generate=true
// +groupName=nodemaintenance.kubevirt.io
package v1beta1
