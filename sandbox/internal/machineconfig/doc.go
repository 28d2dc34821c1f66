// Package machineconfig simulates OpenShift's cluster-version-operator and machine-config-operator in an upgrade of nodes, so that what
// depends on them can be tested end to end on a plain API server. Package test/openshift has its names and options.
//
// It follows the rules that other components see: which MachineConfigPool a Node is in, what a paused pool and maxUnavailable prevent, the
// annotations that move a Node from one rendered MachineConfig to the next, cordon, drain and reboot, the counts and conditions of a pool and the
// history of the ClusterVersion. It changes nothing on any machine: in a reboot the Node is NotReady for a while. The length of every step is an
// option, annotations of a Node make it fail, and all that the simulator needs after a restart is in the cluster.
//
// Decisions are pure functions (membership.go, render.go, rollout.go, status.go, version.go, walk.go); the rest carries them out. Watches
// drive everything: at rest it makes no other request.
//
// Where the text says "the original", that is openshift/machine-config-operator in the versions around OpenShift 4.17.
package machineconfig
