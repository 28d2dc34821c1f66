package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/drain"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// pendingAfter is for how long a Pod must have been unschedulable to count for spec.rollout.stopWhen.pendingPods.
const pendingAfter = 2 * time.Minute

// CountsPending reports whether Pods are counted: the group limits them, and its roll-out goes on.
func (in *Input) CountsPending() bool {
	settings := in.settings()
	return settings.StopWhen != nil && settings.StopWhen.PendingPods != nil && in.Group.DeletionTimestamp == nil && in.unfinished() && !in.isStopped()
}

func (in *Input) isStopped() bool {
	status := in.Group.Status.Rollout
	return status != nil && status.Revision == in.Declaration.Revision && status.Stopped != ""
}

// Pending returns those of the Pods that have become unschedulable since the roll-out began, or was resumed, two minutes ago or more, and that fit a
// Node: they tolerate its taints and match its labels, except for those that the group declares or has declared, and for the taints of Kubernetes
// itself. What a Node has left of CPU and memory does not count.
func (in *Input) Pending(pods []*corev1.Pod, nodes []*corev1.Node) (names []string) {
	since := in.Since()
	if since.IsZero() {
		return nil
	}
	ignored := in.managed()
	for _, pod := range pods {
		if at := unschedulableSince(pod); at.IsZero() || at.Before(since) || in.Now.Sub(at) < pendingAfter {
			continue
		}
		requirements := withoutKeys(podRequirements(pod), ignored[ownership.Label])
		if expressions(requirements) > maxExpressions {
			continue
		}
		if slices.ContainsFunc(nodes, func(node *corev1.Node) bool { return fits(pod, requirements, node, ignored[ownership.Taint]) }) {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}

// managed returns the keys that the group declares or has declared.
func (in *Input) managed() map[ownership.Kind]map[string]bool {
	managed := map[ownership.Kind]map[string]bool{}
	for _, kind := range ownership.Kinds {
		managed[kind] = map[string]bool{}
		for _, section := range []ownership.Section{in.Declaration.Section(), metadataplan.ParseOwnedKeys(in.Group.Status.OwnedKeys)} {
			for _, key := range section.Of(kind).Sorted() {
				managed[kind][key] = true
			}
		}
	}
	return managed
}

// maxExpressions is how many requirements of a Pod are looked at; one with more counts as one that fits no Node.
const maxExpressions = 50

// TrimPod returns a copy of a Pod with what LabelUses and Pending read.
func TrimPod(pod *corev1.Pod) *corev1.Pod {
	trimmed := &corev1.Pod{}
	trimmed.Namespace, trimmed.Name, trimmed.DeletionTimestamp = pod.Namespace, pod.Name, pod.DeletionTimestamp
	trimmed.Spec.NodeName, trimmed.Spec.NodeSelector, trimmed.Spec.Tolerations = pod.Spec.NodeName, pod.Spec.NodeSelector, pod.Spec.Tolerations
	if affinity := pod.Spec.Affinity; affinity != nil {
		trimmed.Spec.Affinity = &corev1.Affinity{NodeAffinity: affinity.NodeAffinity}
	}
	trimmed.Status.Phase, trimmed.Status.Conditions = pod.Status.Phase, pod.Status.Conditions
	return trimmed
}

// expressions returns how many expressions requirements have.
func expressions(requirements []requirement) (count int) {
	for _, r := range requirements {
		for i := range r {
			count += 1 + len(r[i].MatchExpressions) + len(r[i].MatchFields)
		}
	}
	return count
}

// IsUnschedulable reports whether the scheduler has found no Node for a Pod.
func IsUnschedulable(pod *corev1.Pod) bool { return !unschedulableSince(pod).IsZero() }

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

// fits reports whether a Pod may run on a Node, apart from some taints.
func fits(pod *corev1.Pod, requirements []requirement, node *corev1.Node, ignored map[string]bool) bool {
	for _, r := range requirements {
		if !r.matches(node.Name, node.Labels) {
			return false
		}
	}
	var taints []corev1.Taint
	for i := range node.Spec.Taints {
		taint := node.Spec.Taints[i]
		// A Node that has become NotReady, or is cordoned, is one that the Pod might run on.
		ofKubernetes := strings.HasPrefix(taint.Key, "node.kubernetes.io/")
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !ofKubernetes && !ignored[ownership.TaintID(taint)] {
			taints = append(taints, taint)
		}
	}
	return drain.Tolerates(pod, taints)
}

// withoutKeys returns requirements without the expressions that name some keys: these count as met.
func withoutKeys(all []requirement, keys map[string]bool) (left []requirement) {
	for _, r := range all {
		var terms requirement
		met := false
		for _, term := range r {
			kept := slices.DeleteFunc(slices.Clone(term.MatchExpressions), func(e corev1.NodeSelectorRequirement) bool { return keys[e.Key] })
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
