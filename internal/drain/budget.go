package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// maxDisrupted is the number of disrupted pods of one budget above which the eviction API denies any more.
const maxDisrupted = 2000

// Verdict is the result of the PodDisruptionBudgets in the cache for the eviction of a pod.
type Verdict struct {
	// Outcome is Accepted when the budgets allow the eviction, otherwise what the eviction API would answer.
	Outcome Outcome
	// Budgets are the budgets that select the pod, sorted by name.
	Budgets []types.NamespacedName
	// Counted reports whether the eviction counts as one of the Allowed disruptions of the only budget.
	Counted bool
	Allowed int
	// Never reports whether the budget cannot allow a disruption before it or its pods change.
	Never bool
	// Text describes what the budget has and needs; empty when it allows the eviction.
	Text string
}

// Assess returns what the eviction API would answer for a pod with these budgets.
func Assess(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) Verdict {
	v := Verdict{Outcome: Accepted}
	if len(budgets) == 0 || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodPending {
		return v
	}
	for _, budget := range budgets {
		v.Budgets = append(v.Budgets, types.NamespacedName{Namespace: budget.Namespace, Name: budget.Name})
	}
	slices.SortFunc(v.Budgets, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	if len(budgets) > 1 {
		v.Outcome = SeveralBudgets
		v.Text = fmt.Sprintf("PodDisruptionBudgets %s all select it, and the eviction API takes at most one", joinNames(v.Budgets))
		return v
	}
	budget := budgets[0]
	if unhealthyEvictable(pod, budget) {
		return v
	}
	v.Counted, v.Allowed = true, int(budget.Status.DisruptionsAllowed)
	v.Outcome, v.Text = assessStatus(budget)
	v.Never = v.Outcome == BudgetSpent && (neverAllows(budget) || strings.Contains(syncFailure(budget), noScale))
	if v.Never {
		v.Text += "; it cannot allow any as it is"
	}
	return v
}

// unhealthyEvictable reports whether the eviction API makes its exception for a pod that is not ready.
func unhealthyEvictable(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return false
		}
	}
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
}

// assessStatus returns whether the status of a budget allows a disruption, and why not.
func assessStatus(budget *policyv1.PodDisruptionBudget) (outcome Outcome, text string) {
	status := budget.Status
	name := budget.Namespace + "/" + budget.Name
	failure := syncFailure(budget)
	switch {
	case failure != "" && status.DisruptionsAllowed == 0:
		// The status still describes the last generation that could be computed.
		return BudgetSpent, fmt.Sprintf("PodDisruptionBudget %s cannot be computed: %s", name, failure)
	case status.ObservedGeneration < budget.Generation:
		return BudgetUnknown, fmt.Sprintf("PodDisruptionBudget %s is still being processed", name)
	case status.DisruptionsAllowed < 0:
		return BudgetBroken, fmt.Sprintf("PodDisruptionBudget %s allows a negative number of disruptions", name)
	case len(status.DisruptedPods) > maxDisrupted:
		return BudgetBroken, fmt.Sprintf("PodDisruptionBudget %s has more than %d disrupted pods", name, maxDisrupted)
	case status.DisruptionsAllowed > 0:
		return Accepted, ""
	}
	return BudgetSpent, fmt.Sprintf("PodDisruptionBudget %s needs %d healthy pods and has %d", name, status.DesiredHealthy, status.CurrentHealthy)
}

// noScale is what Kubernetes says of a budget in percent, or of maxUnavailable, for pods of a kind that does not say how many there should be
// (https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/disruption/disruption.go).
const noScale = "does not implement the scale subresource"

// syncFailure returns why Kubernetes cannot compute a budget; empty if it can.
func syncFailure(budget *policyv1.PodDisruptionBudget) string {
	for _, condition := range budget.Status.Conditions {
		if condition.Type == policyv1.DisruptionAllowedCondition && condition.Reason == policyv1.SyncFailedReason {
			return cmp.Or(condition.Message, "unknown")
		}
	}
	return ""
}

// neverAllows reports whether a budget allows no disruption although all of its pods are healthy. That is known only when its status is current and
// no disruption is in progress.
func neverAllows(budget *policyv1.PodDisruptionBudget) bool {
	status := budget.Status
	return status.ObservedGeneration >= budget.Generation && status.ExpectedPods > 0 && status.CurrentHealthy >= status.ExpectedPods &&
		len(status.DisruptedPods) == 0 && status.DisruptionsAllowed == 0
}

// SelectorOf returns the selector of a budget as the eviction API evaluates it: no selector or an invalid one selects nothing, an empty one all pods
// of the namespace.
func SelectorOf(budget *policyv1.PodDisruptionBudget) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// maxSelector is how many bytes the selector of a budget has at most so that TrimBudget keeps it.
const maxSelector = 8 << 10

// TrimBudget keeps of a budget what Assess and Selects read. Anyone may create budgets in a namespace of their own, as large as a request can be:
// one with a selector of more than 8 KiB selects nothing any more. The eviction API still asks it.
func TrimBudget(budget *policyv1.PodDisruptionBudget) {
	budget.ObjectMeta = metav1.ObjectMeta{
		Namespace: budget.Namespace, Name: budget.Name, UID: budget.UID, ResourceVersion: budget.ResourceVersion, Generation: budget.Generation,
	}
	selector := budget.Spec.Selector
	if selector.Size() > maxSelector {
		selector = nil
	}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{Selector: selector, UnhealthyPodEvictionPolicy: budget.Spec.UnhealthyPodEvictionPolicy}
}

// Selects reports whether a budget selects a pod.
func Selects(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	return budget.Namespace == pod.Namespace && SelectorOf(budget).Matches(labels.Set(pod.Labels))
}

func joinNames(names []types.NamespacedName) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = name.String()
	}
	return strings.Join(texts, " and ")
}
