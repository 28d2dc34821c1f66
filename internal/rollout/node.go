package rollout

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodestate"
)

// NewNode returns what a decision depends on of a Node, except for its metadata. leaving reports that its Machine is being deleted. unavailable are
// further keys of taints that make a Node count as unavailable.
func NewNode(node *corev1.Node, leaving bool, unavailable []string) Node {
	out := Node{
		Name: node.Name, Zone: node.Labels[corev1.LabelTopologyZone], Created: node.CreationTimestamp.Time, Labels: node.Labels,
		Joining: disruptionplan.IsJoining(node),
		Leaving: leaving || slices.ContainsFunc(disruptionplan.Signs(node, unavailable), isLeaving),
	}
	ready := ReadinessOf(node)
	out.Ready, out.ReadyChange = ready.Status == corev1.ConditionTrue, ready.LastTransitionTime.Time
	return out
}

// isLeaving reports whether a Node with a sign becomes NotReady on purpose: it is being deleted, restarted or updated.
func isLeaving(sign disruptionplan.Sign) bool {
	switch sign {
	case disruptionplan.SignDeleted, disruptionplan.SignTainted, disruptionplan.SignReboot, disruptionplan.SignMachineConfig:
		return true
	}
	return false
}

// SameNode reports whether two versions of a Node are equal in all that a decision depends on: not what changes with every heartbeat.
func SameNode(before, after *corev1.Node) bool {
	return before.UID == after.UID && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) &&
		before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() && before.Spec.Unschedulable == after.Spec.Unschedulable &&
		apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints) && sameConditions(before, after)
}

// ReadinessOf returns the condition Ready of a Node without the time of the last heartbeat and the message.
func ReadinessOf(node *corev1.Node) corev1.NodeCondition {
	if c := nodestate.Condition(node, corev1.NodeReady); c != nil {
		return corev1.NodeCondition{Status: c.Status, LastTransitionTime: c.LastTransitionTime}
	}
	return corev1.NodeCondition{}
}

// sameConditions reports whether the conditions are equal that a decision reads.
func sameConditions(before, after *corev1.Node) bool {
	for _, kind := range disruptionplan.Conditions {
		if conditionStatus(before, kind) != conditionStatus(after, kind) {
			return false
		}
	}
	return ReadinessOf(before) == ReadinessOf(after)
}

func conditionStatus(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	if c := nodestate.Condition(node, kind); c != nil {
		return c.Status
	}
	return ""
}
