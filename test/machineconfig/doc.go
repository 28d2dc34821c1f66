// Package machineconfig plays the part of OpenShift's cluster-version-operator and machine-config-operator in an upgrade of nodes, so that
// whatever depends on their behaviour can be tried end to end on a plain API server.
//
// It keeps the rules that others see: which MachineConfigPool a Node is in, what a paused pool and maxUnavailable hold back, the annotations
// by which a Node walks from one rendered MachineConfig to the next, cordon, drain and reboot, the counts and conditions of a pool and the
// history of the ClusterVersion. It changes nothing on any machine: a reboot is a Node that turns NotReady for a while. Every step's length
// is an option, failures are asked for by annotations of the Node, and whatever is needed to go on after a restart is in the cluster.
//
// Decisions are pure functions (membership.go, render.go, rollout.go, status.go, version.go, walk.go); the rest carries them out. Everything
// is driven by watches: at rest it makes no request but those of its watches.
//
// Where the text says "the original", that is openshift/machine-config-operator in the versions around OpenShift 4.17.
package machineconfig
