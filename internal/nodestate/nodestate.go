// Package nodestate reads from a Node what every capability means by the same words: whether it is Ready, and whether it is one of the control plane.
package nodestate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Labels of Nodes of the control plane; their values do not matter
// (https://kubernetes.io/docs/reference/labels-annotations-taints/#node-role-kubernetes-io-control-plane).
const (
	LabelControlPlane = "node-role.kubernetes.io/control-plane"
	LabelMaster       = "node-role.kubernetes.io/master"
)

// IsControlPlane reports whether a Node with these labels is one of the control plane.
func IsControlPlane(labels map[string]string) bool {
	_, controlPlane := labels[LabelControlPlane]
	_, master := labels[LabelMaster]
	return controlPlane || master
}

// Condition returns the condition of a type of a Node, which must not be changed; nil where there is none, and for no Node.
func Condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	if node == nil {
		return nil
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// IsTrue reports whether a condition of a Node is True.
func IsTrue(node *corev1.Node, kind corev1.NodeConditionType) bool {
	c := Condition(node, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

// IsReady reports whether the condition Ready of a Node is True.
func IsReady(node *corev1.Node) bool { return IsTrue(node, corev1.NodeReady) }

// ReadyChange returns when the condition Ready of a Node changed last; zero where there is none.
func ReadyChange(node *corev1.Node) time.Time {
	if c := Condition(node, corev1.NodeReady); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}
