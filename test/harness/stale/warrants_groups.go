package stale

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
)

// dedicates reports whether a NodeGroup that selects a node by its labels declares a taint that evicts pods, and which the node lacks.
func (s *State) dedicates(name string) bool {
	node := find(s.Nodes, "", name)
	return node != nil && slices.ContainsFunc(s.Groups, func(group *drover.NodeGroup) bool {
		selector, err := metav1.LabelSelectorAsSelector(group.Spec.Nodes.Selector)
		return err == nil && group.DeletionTimestamp == nil && group.Spec.Metadata != nil && selector.Matches(labels.Set(node.Labels)) &&
			slices.ContainsFunc(group.Spec.Metadata.Taints, func(t drover.Taint) bool {
				return t.Effect == corev1.TaintEffectNoExecute && !hasTaint(node, t.Key)
			})
	})
}

// hasTaint reports whether a node has a taint that evicts pods.
func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == corev1.TaintEffectNoExecute })
}

// setTaint checks a write that adds a NoExecute taint to a node: the taint must not delete a pod that is on the node.
func setTaint(r *Request, before, after *State) error {
	was, is := find(before.Nodes, "", r.Name), find(after.Nodes, "", r.Name)
	if was == nil || is == nil {
		return nil
	}
	for _, taint := range is.Spec.Taints {
		if taint.Effect != corev1.TaintEffectNoExecute || hasTaint(was, taint.Key) {
			continue
		}
		for _, pod := range before.Pods {
			if pod.Spec.NodeName == r.Name && !stays(pod, taint.Key) {
				return fmt.Errorf("pod %s/%s is on the node, and the taint %s deletes it", pod.Namespace, pod.Name, taint.Key)
			}
		}
	}
	return nil
}

// stays reports whether a pod does not count for a taint: the pod tolerates the taint, has ended, or would be recreated by its DaemonSet or kubelet.
func stays(pod *corev1.Pod, key string) bool {
	owner := metav1.GetControllerOf(pod)
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return static || ended || owner != nil && owner.Kind == "DaemonSet" || slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return (t.Key == "" || t.Key == key) && t.Operator == corev1.TolerationOpExists
	})
}
