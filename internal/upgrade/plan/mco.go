package plan

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/status"
)

// Annotations of Nodes and a state of the machine-config-operator:
// https://github.com/openshift/machine-config-operator/blob/master/pkg/daemon/constants/constants.go
const (
	annotationState  = "machineconfiguration.openshift.io/state"
	annotationReason = "machineconfiguration.openshift.io/reason"
	// annotationDesired names the rendered MachineConfig that the node is to have.
	annotationDesired = "machineconfiguration.openshift.io/desiredConfig"
	stateWorking      = "Working"
	// With these the machine-config-daemon requests the drain of its node, and the machine-config-controller answers: drain-CONFIG or
	// uncordon-CONFIG.
	annotationDesiredDrain     = "machineconfiguration.openshift.io/desiredDrain"
	annotationLastAppliedDrain = "machineconfiguration.openshift.io/lastAppliedDrain"
	drainRequest               = "drain-"
)

// maxReported is the longest text of the machine-config-operator that a message quotes, in bytes.
const maxReported = 300

// Delay says why a released node is not upgraded yet, where a user may have to act.
type Delay string

// The delays; empty is none.
const (
	// DelayNotStarted: the machine-config-operator has not started to update the node.
	DelayNotStarted Delay = "NotStarted"
	// DelayDrain: pods of the node block its drain.
	DelayDrain Delay = "DrainBlocked"
)

// Drain is the state of a drain by the machine-config-operator.
type Drain struct {
	// Text says which pods are left and why, or why that is not known; empty if it was not checked yet.
	Text string
	// Blocked reports whether some of them will not leave soon without a user.
	Blocked bool
}

// Draining reports whether the machine-config-operator is draining a node.
func Draining(node *corev1.Node) bool {
	desired := node.Annotations[annotationDesiredDrain]
	return strings.HasPrefix(desired, drainRequest) && desired != node.Annotations[annotationLastAppliedDrain]
}

// isUpdating reports whether the machine-config-operator is updating a node, or is about to.
func isUpdating(node *corev1.Node) bool {
	desired := node.Annotations[annotationDesired]
	return node.Annotations[annotationState] == stateWorking || desired != "" && desired != node.Annotations[AnnotationCurrentConfig]
}

// Unavailable reports whether a node is cordoned or not Ready.
func Unavailable(node *corev1.Node) bool { return node.Spec.Unschedulable || !nodestate.IsReady(node) }

// progressOf says how far the machine-config-operator is with a released node, and what delays it.
func progressOf(node *Node) (text string, delay Delay) {
	reported := node.Annotations[annotationState]
	if reason := node.Annotations[annotationReason]; reason != "" {
		reported += ": " + status.Shorten(reason, maxReported)
	}
	if reported == "" {
		reported = "nothing"
	}
	if !isUpdating(node.Node) {
		return "the machine-config-operator has not started to update the node; it reports " + reported, DelayNotStarted
	}
	text = "the machine-config-operator reports " + reported
	switch {
	case Draining(node.Node) && node.Drain.Text != "":
		text += "; it drains the node: " + node.Drain.Text
		if node.Drain.Blocked {
			delay = DelayDrain
		}
	case Draining(node.Node):
		text += "; it drains the node"
	case !nodestate.IsReady(node.Node):
		text += "; the node is not Ready, as during a restart"
	}
	return text, delay
}

// failureOf says why the machine-config-operator cannot update a node; empty if it can.
func failureOf(node *Node) string {
	state := node.Annotations[annotationState]
	if state != "Degraded" && state != "Unreconcilable" {
		return ""
	}
	text := fmt.Sprintf("the machine-config-operator reports %s: %s", state, status.Shorten(node.Annotations[annotationReason], maxReported))
	if Draining(node.Node) && node.Drain.Text != "" {
		text += "; its drain: " + node.Drain.Text
	}
	return text
}
