// Package openshift has what tests and the sandbox's machine-config simulator agree on: the names of the machine-config-operator and of the
// cluster-version-operator, the options of the simulator, and the objects that it works on. The simulator itself is in the module sandbox
// (sandbox/internal/machineconfig); tests start it as a process with Cluster.StartMachineConfig.
package openshift
