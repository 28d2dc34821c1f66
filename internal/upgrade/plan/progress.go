package plan

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// The annotations by which the machine-config-daemon asks for the drain of its node, and the machine-config-controller answers
// (pkg/daemon/constants of github.com/openshift/machine-config-operator): drain-CONFIG or uncordon-CONFIG.
const (
	annotationDesiredDrain     = "machineconfiguration.openshift.io/desiredDrain"
	annotationLastAppliedDrain = "machineconfiguration.openshift.io/lastAppliedDrain"
	drainRequest               = "drain-"
)

// maxReported bounds what is taken over from the machine-config-operator's text, in bytes.
const maxReported = 300

// Delay says why a node that was released is not upgraded yet, where that may need somebody.
type Delay string

// The delays; empty is none.
const (
	// DelayNotBegun: the machine-config-operator has not begun with the node.
	DelayNotBegun Delay = "NotBegun"
	// DelayDrain: pods of the node block its drain.
	DelayDrain Delay = "DrainBlocked"
)

// Drain is what keeps the drain of a node that the machine-config-operator drains.
type Drain struct {
	// Text says which pods are left and why, or why that is not known; empty for not looked at yet.
	Text string
	// Blocked reports whether some of them do not leave by themselves soon.
	Blocked bool
}

// Draining reports whether the machine-config-operator drains a node now.
func Draining(node *corev1.Node) bool {
	desired := node.Annotations[annotationDesiredDrain]
	return strings.HasPrefix(desired, drainRequest) && desired != node.Annotations[annotationLastAppliedDrain]
}

// progress says what the machine-config-operator reports of a node that was released, and what keeps its drain.
func progress(node *Node) (text string, delay Delay) {
	reported := node.Annotations[annotationState]
	if reason := node.Annotations[annotationReason]; reason != "" {
		reported += ": " + status.Shorten(reason, maxReported)
	}
	if reported == "" {
		reported = "nothing"
	}
	if !atWork(node.Node) {
		return "the machine-config-operator has not begun with the node; it reports " + reported, DelayNotBegun
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
	case !ready(node.Node):
		text += "; the node is not Ready, as while it restarts"
	}
	return text, delay
}

// failure says of a node that the machine-config-operator has given up what it reports.
func failure(node *Node) string {
	text := fmt.Sprintf("the machine-config-operator says %s: %s", node.Annotations[annotationState],
		status.Shorten(node.Annotations[annotationReason], maxReported))
	if Draining(node.Node) && node.Drain.Text != "" {
		text += "; left by its drain: " + node.Drain.Text
	}
	return text
}
