// Package autoscaling puts the bounds of MachineAutoscalers on MachineSets, as annotations that cluster-autoscaler reads. It replaces the controller
// of MachineAutoscalers of OpenShift's cluster-autoscaler-operator; it does not run cluster-autoscaler.
package autoscaling
