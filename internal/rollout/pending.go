package rollout

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/ownership"
)

// pendingAfter is for how long a Pod must have been unschedulable to count for spec.rollout.stopWhen.pendingPods.
const pendingAfter = 2 * time.Minute

// CountsPending reports whether Pods are counted: the settings limit them, and the roll-out goes on.
func (in *Input) CountsPending() bool {
	counted := in.Settings.StopWhen != nil && in.Settings.StopWhen.PendingPods != nil
	return counted && !in.Ending && in.Pending() > 0 && !in.isStopped() && !in.hasEnded()
}

// hasEnded reports whether the roll-out of the declaration has ended.
func (in *Input) hasEnded() bool {
	status := in.Before
	return status != nil && status.Revision == in.Revision && status.EndTime != nil
}

// isStopped reports whether the roll-out of the declaration has stopped, and is not to be judged again.
func (in *Input) isStopped() bool {
	status := in.Before
	return status != nil && status.Revision == in.Revision && status.Stopped != "" && !in.isJudgedAgain()
}

// PendingIn returns a function that reports whether a Pod fits one of the Nodes and has become unschedulable since the roll-out began or was resumed,
// at least two minutes ago. A Pod fits a Node if it tolerates the Node's taints and matches its labels. Labels and taints that are, or were, declared
// do not count, nor do the taints of Kubernetes itself, nor what a Node has left of CPU and memory.
func (in *Input) PendingIn(nodes []*corev1.Node, declared ownership.Section) func(*corev1.Pod) bool {
	since, candidates := in.Since(), []candidate(nil)
	for _, node := range nodes {
		candidates = append(candidates, candidate{node, keptTaints(node, declared.Of(ownership.Taint))})
	}
	return func(pod *corev1.Pod) bool {
		if at := unschedulableSince(pod); since.IsZero() || at.IsZero() || at.Before(since) || in.Now.Sub(at) < pendingAfter {
			return false
		}
		requirements := withoutKeys(podRequirements(pod), declared.Of(ownership.Label))
		if expressions(requirements)+len(pod.Spec.Tolerations) > maxExpressions {
			return false
		}
		var all []parsed
		for _, r := range requirements {
			all = append(all, r.parse())
		}
		return slices.ContainsFunc(candidates, func(c candidate) bool { return c.fits(pod, all) })
	}
}

// candidate is a Node on which Pods may run that tolerate some of its taints.
type candidate struct {
	node   *corev1.Node
	taints []corev1.Taint
}

// maxExpressions is how many terms, expressions, values and tolerations of a Pod are compared with each Node. A Pod with more counts as fitting no
// Node: any tenant can create it, and the comparison would take minutes.
const maxExpressions = 100

// expressions returns how many terms, expressions and values requirements have.
func expressions(requirements []requirement) (count int) {
	for _, r := range requirements {
		for i := range r {
			count++
			for _, expressions := range [][]corev1.NodeSelectorRequirement{r[i].MatchExpressions, r[i].MatchFields} {
				for n := range expressions {
					count += 1 + len(expressions[n].Values)
				}
			}
		}
	}
	return count
}

// unschedulableSince returns since when the scheduler has found no Node for a Pod; zero if it has, or has not looked.
func unschedulableSince(pod *corev1.Pod) time.Time {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return time.Time{}
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// fits reports whether a Pod may run on the Node, apart from some taints.
func (c candidate) fits(pod *corev1.Pod, requirements []parsed) bool {
	return !slices.ContainsFunc(requirements, func(p parsed) bool { return !p.matches(c.node.Name, c.node.Labels) }) && drain.Tolerates(pod, c.taints)
}

// keptTaints returns the taints of a Node that keep Pods away, without the ignored ones and without the taints of Kubernetes.
func keptTaints(node *corev1.Node, ignored ownership.Keys) (taints []corev1.Taint) {
	for i := range node.Spec.Taints {
		taint := node.Spec.Taints[i]
		// A Node that has become NotReady, or is cordoned, still counts: the Pod might run on it.
		ofKubernetes := strings.HasPrefix(taint.Key, "node.kubernetes.io/")
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !ofKubernetes && !ignored.Has(ownership.TaintID(taint)) {
			taints = append(taints, taint)
		}
	}
	return taints
}

// withoutKeys returns requirements without the expressions that name some keys: these count as met.
func withoutKeys(all []requirement, keys ownership.Keys) (left []requirement) {
	for _, r := range all {
		var terms requirement
		met := false
		for _, term := range r {
			kept := slices.DeleteFunc(slices.Clone(term.MatchExpressions), func(e corev1.NodeSelectorRequirement) bool { return keys.Has(e.Key) })
			met = met || len(term.MatchExpressions) > 0 && len(kept)+len(term.MatchFields) == 0
			term.MatchExpressions = kept
			terms = append(terms, term)
		}
		if !met {
			left = append(left, terms)
		}
	}
	return left
}
