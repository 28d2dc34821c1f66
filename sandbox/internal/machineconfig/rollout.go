package machineconfig

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/test/openshift"
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

// Candidates returns the Nodes of a pool that get its target as their desiredConfig now: Nodes that want another MachineConfig, ordered by zone and
// age, as many as maxUnavailable allows. Nodes count against maxUnavailable if they are NotReady, cordoned or updating, for any reason, or if they
// failed with this very target. A Node that failed with another MachineConfig tries this one at once: it is unavailable already.
func Candidates(target string, nodes []*corev1.Node, maxUnavailable int) []*corev1.Node {
	budget := maxUnavailable
	var failed, waiting []*corev1.Node
	for _, node := range nodes {
		other := node.Annotations[openshift.AnnotationDesiredConfig] != target
		if isUnavailable(node) || !other && isFailing(node) {
			budget--
		}
		switch {
		case other && isFailing(node):
			failed = append(failed, node)
		case other && isDone(node) && isReady(node):
			waiting = append(waiting, node)
		}
	}
	slices.SortStableFunc(waiting, compareNodes)
	return append(failed, waiting[:max(0, min(budget, len(waiting)))]...)
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

// isManaged reports whether a Node has a configuration.
func isManaged(node *corev1.Node) bool {
	return node.Annotations[openshift.AnnotationCurrentConfig] != ""
}

// isDone reports whether a Node runs its desired configuration.
func isDone(node *corev1.Node) bool {
	current := node.Annotations[openshift.AnnotationCurrentConfig]
	return current != "" && current == node.Annotations[openshift.AnnotationDesiredConfig] &&
		node.Annotations[openshift.AnnotationState] == openshift.StateDone
}

// isDegraded reports whether the update of a Node failed.
func isDegraded(node *corev1.Node) bool {
	state := node.Annotations[openshift.AnnotationState]
	return state == openshift.StateDegraded || state == openshift.StateUnreconcilable
}

// isFailing reports whether a Node is degraded before it has reached its desired configuration.
func isFailing(node *corev1.Node) bool {
	return isDegraded(node) && node.Annotations[openshift.AnnotationCurrentConfig] != node.Annotations[openshift.AnnotationDesiredConfig]
}

// isReady reports whether a Node accepts pods: it is Ready, and not cordoned.
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

// isUnavailable reports whether a Node accepts no pods, or an update of it has begun or may begin at any moment. A Node whose update failed is
// available if it accepts pods.
func isUnavailable(node *corev1.Node) bool {
	return !isReady(node) || !isDone(node) && !isFailing(node)
}
