package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/drain"
)

// NoExecuteOf returns what a group says of taints with the effect NoExecute.
func NoExecuteOf(group *v1alpha1.NodeGroup) v1alpha1.NoExecute {
	if rollout := group.Spec.Rollout; rollout != nil && rollout.NoExecute != nil {
		return *rollout.NoExecute
	}
	return v1alpha1.NoExecute{}
}

// GuardOptions returns the options of the drain of Pods that do not tolerate taints which a Node is to get.
func GuardOptions(settings *v1alpha1.NoExecute, taints []corev1.Taint) drain.Options {
	return drain.Options{Taints: taints, ClusterAPI: true, Karpenter: true, Deadline: GuardTimeout(settings)}
}

// HeldBack says why the guarded taints of a Node are held back before any of its Pods is evicted; empty if they are not. countWave adds the Node's
// Pods to the Pods of its wave, unless the sum exceeds the limit, and returns the sum. A Node that keeps its Pods does not count.
func HeldBack(settings *v1alpha1.NoExecute, report *drain.Report, countWave func(pods, limit int) (all int)) string {
	if held := neverLeaves(report); held != "" {
		return held
	}
	pods := len(report.Remaining)
	if limit := settings.MaxPodsPerNode; limit != nil && pods > int(*limit) {
		return fmt.Sprintf("%d Pods do not tolerate it on this Node, and spec.rollout.noExecute.maxPodsPerNode is %d", pods, *limit)
	}
	if limit := settings.MaxPodsPerWave; limit != nil {
		if all := countWave(pods, int(*limit)); all > int(*limit) {
			return fmt.Sprintf("with this Node %d Pods would be evicted in this wave, and spec.rollout.noExecute.maxPodsPerWave is %d", all, *limit)
		}
	}
	return ""
}

// NamespacesOf returns the namespaces of the Pods that still have to leave.
func NamespacesOf(report *drain.Report) sets.Set[string] {
	namespaces := sets.Set[string]{}
	for i := range report.Remaining {
		namespaces.Insert(report.Remaining[i].Namespace)
	}
	return namespaces
}

// neverLeaves says which Pod cannot be evicted before a user changes its PodDisruptionBudgets; empty for none.
func neverLeaves(report *drain.Report) string {
	for i := range report.Remaining {
		if pod := &report.Remaining[i]; pod.Reason == drain.BudgetNever || pod.Reason == drain.TwoBudgets {
			return fmt.Sprintf("Pod %s/%s does not tolerate it and cannot be evicted: %s", pod.Namespace, pod.Name, pod.Detail)
		}
	}
	return ""
}
