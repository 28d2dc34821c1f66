package machineconfig

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxUnavailable is how many Nodes of a pool may be unavailable at once: 1 by default, and never less, since pausing is what stops a pool.
func MaxUnavailable(pool *mcfgv1.MachineConfigPool, nodes int) (int, error) {
	if pool.Spec.MaxUnavailable == nil {
		return 1, nil
	}
	value, err := intstr.GetScaledValueFromIntOrPercent(pool.Spec.MaxUnavailable, nodes, false)
	if err != nil {
		return 0, fmt.Errorf("spec.maxUnavailable: %w", err)
	}
	return max(value, 1), nil
}

// Candidates returns the Nodes of a pool that are to get its target as their desiredConfig now: those that want another one, in the order of
// their zones and ages, as many as maxUnavailable leaves room for. Room is taken by Nodes that are NotReady, cordoned or in an update,
// whatever for, and by those that failed with this very target. A Node that failed with another one tries this one at once: it is
// unavailable already.
func Candidates(target string, nodes []*corev1.Node, maxUnavailable int) []*corev1.Node {
	room := maxUnavailable
	var failed, waiting []*corev1.Node
	for _, node := range nodes {
		other := node.Annotations[AnnotationDesiredConfig] != target
		if isUnavailable(node) || !other && isFailing(node) {
			room--
		}
		switch {
		case other && isFailing(node):
			failed = append(failed, node)
		case other && isDone(node) && isReady(node):
			waiting = append(waiting, node)
		}
	}
	slices.SortStableFunc(waiting, compareNodes)
	return append(failed, waiting[:max(0, min(room, len(waiting)))]...)
}

// compareNodes orders by zone, those without one last, then by age and name.
func compareNodes(a, b *corev1.Node) int {
	zoneA, zoneB := a.Labels[corev1.LabelTopologyZone], b.Labels[corev1.LabelTopologyZone]
	switch {
	case zoneA != zoneB && zoneA == "":
		return 1
	case zoneA != zoneB && zoneB == "":
		return -1
	case zoneA != zoneB:
		return strings.Compare(zoneA, zoneB)
	}
	if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
		return order
	}
	return strings.Compare(a.Name, b.Name)
}

// isManaged tells a Node that has a configuration at all.
func isManaged(node *corev1.Node) bool { return node.Annotations[AnnotationCurrentConfig] != "" }

// isDone tells a Node that runs what it is to run.
func isDone(node *corev1.Node) bool {
	current := node.Annotations[AnnotationCurrentConfig]
	return current != "" && current == node.Annotations[AnnotationDesiredConfig] && node.Annotations[AnnotationState] == StateDone
}

// isDegraded tells a Node whose update failed.
func isDegraded(node *corev1.Node) bool {
	state := node.Annotations[AnnotationState]
	return state == StateDegraded || state == StateUnreconcilable
}

// isFailing tells a Node that is degraded short of what it is to run.
func isFailing(node *corev1.Node) bool {
	return isDegraded(node) && node.Annotations[AnnotationCurrentConfig] != node.Annotations[AnnotationDesiredConfig]
}

// isReady tells a Node that takes pods: Ready, and not cordoned.
func isReady(node *corev1.Node) bool { return !node.Spec.Unschedulable && reportsReady(node) }

// reportsReady reads the condition Ready. A Node without it is taken for ready.
func reportsReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return true
}

// isUnavailable tells a Node that takes no pods, or that an update has begun with or may begin with at any moment. One whose update failed is
// none of those if it takes pods.
func isUnavailable(node *corev1.Node) bool {
	return !isReady(node) || !isDone(node) && !isFailing(node)
}
