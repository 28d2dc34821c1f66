package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
)

// unclearFor is how long after a pod was lost otherwise the status of its budget may not show that yet, so that the eviction API allows
// what it should not.
const unclearFor = 10 * time.Second

// evictionState is the cluster as Checker has seen it up to some version.
type evictionState struct {
	pods    map[types.UID]*corev1.Pod
	nodes   map[string]*corev1.Node
	budgets map[types.NamespacedName]*policyv1.PodDisruptionBudget
	// lost is when a budget lost a healthy pod otherwise than by an eviction.
	lost map[types.NamespacedName]time.Time
	// faults are what was done wrong, by namespace.
	faults map[string][]string
	// tainted are the pods that were deleted because of a taint that is not of Kubernetes itself, by namespace.
	tainted map[string][]string
	// judged counts evictions, unclear the evictions that cannot be judged.
	judged, unclear int
	// blind are spans when the watches missed events: after an outage, a new LIST does not show the order of changes.
	blind [][2]time.Time
}

func (s *evictionState) blindAt(at time.Time) bool {
	for _, span := range s.blind {
		if at.After(span[0]) && at.Before(span[1].Add(unclearFor)) {
			return true
		}
	}
	return false
}

func newEvictionState() evictionState {
	return evictionState{
		pods: map[types.UID]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, faults: map[string][]string{}, tainted: map[string][]string{},
		budgets: map[types.NamespacedName]*policyv1.PodDisruptionBudget{}, lost: map[types.NamespacedName]time.Time{},
	}
}

func (s *evictionState) fault(namespace, format string, args ...any) {
	s.faults[namespace] = append(s.faults[namespace], fmt.Sprintf(format, args...))
}

// see applies an event of a watch.
func (s *evictionState) see(t *observation) {
	switch object := t.object.(type) {
	case *corev1.Node:
		s.nodes[object.Name] = object
		if t.gone {
			delete(s.nodes, object.Name)
		}
	case *policyv1.PodDisruptionBudget:
		key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
		s.budgets[key] = object
		if t.gone {
			delete(s.budgets, key)
		}
	case *corev1.Pod:
		s.seePod(object, t)
	}
}

func (s *evictionState) seePod(pod *corev1.Pod, t *observation) {
	before := s.pods[pod.UID]
	s.pods[pod.UID] = pod
	if t.gone {
		delete(s.pods, pod.UID)
	}
	if before == nil {
		return
	}
	s.seeTaint(before, pod)
	evicted := isEvicted(pod)
	switch {
	case evicted && pod.DeletionTimestamp != nil && before.DeletionTimestamp == nil:
		s.judge(before, pod, t.at)
	case isHealthy(before) && (t.gone || !isHealthy(pod)) && !evicted:
		for key := range s.selecting(pod) {
			s.lost[key] = t.at
		}
	}
}

// seeTaint records a pod that ends because of a taint from now on.
func (s *evictionState) seeTaint(before, pod *corev1.Pod) {
	if isDeletedByTaint(pod) && !isDeletedByTaint(before) && isTainted(s.nodes[pod.Spec.NodeName]) {
		s.tainted[pod.Namespace] = append(s.tainted[pod.Namespace], pod.Name)
	}
}

// seeRequest looks at what the operator asks for.
func (s *evictionState) seeRequest(e *cluster.AuditEvent) {
	if e.UID == "" {
		s.fault(e.Namespace, "the %s of pod %s has no precondition: it is for whatever pod has the name", e.Verb, e.Name)
	}
	if e.Verb == "delete" && (e.Grace == nil || *e.Grace < 1) {
		s.fault(e.Namespace, "pod %s was deleted with a grace period of less than a second", e.Name)
	}
}

// isEvicted reports whether a pod ends by way of the eviction API.
func isEvicted(pod *corev1.Pod) bool { return isDisrupted(pod, "EvictionByEvictionAPI") }

// isDeletedByTaint reports whether a pod ends because it does not tolerate a taint with the effect NoExecute.
func isDeletedByTaint(pod *corev1.Pod) bool { return isDisrupted(pod, "DeletionByTaintManager") }

func isDisrupted(pod *corev1.Pod, reason string) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget {
			return condition.Status == corev1.ConditionTrue && condition.Reason == reason
		}
	}
	return false
}

// isTainted reports whether a Node has a taint with the effect NoExecute that Kubernetes has not set itself.
func isTainted(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectNoExecute && !strings.HasPrefix(taint.Key, "node.kubernetes.io/")
	})
}

func isHealthy(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && isReady(pod) }

// selecting lists the budgets that select a pod.
func (s *evictionState) selecting(pod *corev1.Pod) map[types.NamespacedName]*policyv1.PodDisruptionBudget {
	found := map[types.NamespacedName]*policyv1.PodDisruptionBudget{}
	for key, budget := range s.budgets {
		if drain.Selects(budget, pod) {
			found[key] = budget
		}
	}
	return found
}

// isGuarded reports whether a NodeGroup keeps further pods away from a Node.
func isGuarded(node *corev1.Node) bool {
	return node.Annotations[ownership.AnnotationGroupRecord] != "" &&
		slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoSchedule })
}

// judge looks at one eviction: what the pod was before, and what it is after.
func (s *evictionState) judge(before, after *corev1.Pod, at time.Time) {
	s.judged++
	name, namespace := after.Name, after.Namespace
	if _, static := after.Annotations[corev1.MirrorPodAnnotationKey]; static {
		s.fault(namespace, "static pod %s was evicted", name)
	}
	// The garbage collector deletes a pod whose DaemonSet is gone, or takes the owner away: there is no time to evict it.
	if owner := metav1.GetControllerOf(after); owner != nil && owner.Kind == "DaemonSet" {
		s.fault(namespace, "pod %s of a DaemonSet was evicted", name)
	}
	node := s.nodes[after.Spec.NodeName]
	if node == nil || node.Annotations[drain.AnnotationCordon] == "" && !isGuarded(node) {
		s.fault(namespace, "pod %s was evicted from node %q, which is neither in maintenance nor guarded", name, after.Spec.NodeName)
	}
	if !isHealthy(before) {
		return // what is not healthy makes no budget poorer
	}
	for key, budget := range s.selecting(after) {
		healthy, needed := s.healthy(budget), needs(budget)
		if healthy >= needed {
			continue
		}
		if at.Sub(s.lost[key]) < unclearFor || s.blindAt(at) {
			s.unclear++
			continue
		}
		s.fault(namespace, "the eviction of pod %s left %d healthy pods of PodDisruptionBudget %s, which needs %d", name, healthy, key.Name, needed)
	}
}

func (s *evictionState) healthy(budget *policyv1.PodDisruptionBudget) int {
	selected, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return 0
	}
	count := 0
	for _, pod := range s.pods {
		if pod.Namespace == budget.Namespace && selected.Matches(labels.Set(pod.Labels)) && isHealthy(pod) {
			count++
		}
	}
	return count
}

// needs is how many healthy pods a budget asks for: by its spec where that says so, else as kube-controller-manager counts.
func needs(budget *policyv1.PodDisruptionBudget) int {
	if least := budget.Spec.MinAvailable; least != nil && least.Type == intstr.Int {
		return least.IntValue()
	}
	return int(budget.Status.DesiredHealthy)
}
