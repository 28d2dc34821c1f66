// Package vsphere is the provider whose Machines are virtual machines of VMware vSphere. It serves the VSphereMachineProviderSpec of
// machine-api-operator: https://github.com/openshift/machine-api-operator/tree/master/pkg/controller/vsphere
package vsphere
