package drain

import (
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/internal/bounded"
)

// Behavior is what a drain does with a pod.
type Behavior string

// The behaviors.
const (
	// Evict evicts the pod. The zero value means Evict.
	Evict Behavior = "Drain"
	// Skip leaves the pod on the node and does not wait for it.
	Skip Behavior = "Skip"
	// WaitCompleted never evicts the pod and waits until it has finished.
	WaitCompleted Behavior = "WaitCompleted"
)

// Unreachable is the policy for terminating pods of a node whose kubelet does not report.
type Unreachable string

// The policies.
const (
	// Wait waits for them. The zero value means Wait.
	Wait Unreachable = "Wait"
	// Ignore ignores those whose grace period is over.
	Ignore Unreachable = "Ignore"
	// OutOfService is Ignore, and requests the taint node.kubernetes.io/out-of-service.
	OutOfService Unreachable = "OutOfService"
)

// Options configure a drain. The zero value is kubectl drain --force --ignore-daemonsets --delete-emptydir-data.
type Options struct {
	// ByPriority evicts pods of a lower priority first.
	ByPriority bool
	// Rules configure what is done with pods; the first rule that selects a pod applies.
	Rules []Rule
	// Taints limits the drain to the pods that do not tolerate one of these taints for as long as the node has it; empty is all pods.
	Taints []corev1.Taint
	// ClusterAPI enables the pod label cluster.x-k8s.io/drain, Karpenter the annotation karpenter.sh/do-not-disrupt.
	ClusterAPI, Karpenter bool
	// MinimumTime is the shortest time from the cordon until the node counts as drained; zero for none.
	MinimumTime time.Duration
	// Deadline is the time from the cordon after which the drain has exceeded its deadline; zero for none. With Force the pods that would outlast it
	// are deleted.
	Deadline time.Duration
	Force    bool
	// Unreachable is the policy for terminating pods of a node whose kubelet does not report.
	Unreachable Unreachable
	// Returning is the policy for pods whose owner puts them on the node although it is cordoned.
	Returning Returning
	// Volumes waits until the node's volumes are detached, for at most VolumesTimeout after the pods are gone; zero is without limit.
	Volumes        bool
	VolumesTimeout time.Duration
}

// bounded returns the options with durations that can be added up without overflow.
func (o Options) bounded() Options {
	o.MinimumTime, o.Deadline = bounded.Duration(o.MinimumTime), bounded.Duration(o.Deadline)
	o.VolumesTimeout = bounded.Duration(o.VolumesTimeout)
	return o
}

// Rule configures what is done with the pods that it selects.
type Rule struct {
	// Namespaces are the namespaces of the pods; empty is all.
	Namespaces []string
	// Selector selects pods by their labels; nil is all.
	Selector labels.Selector
	// Behavior is what is done with the pods.
	Behavior Behavior
	// Order is the group of the pods; the lowest is evicted first.
	Order int32
}

// Tolerates reports whether a pod stays on a node with the taints, whose effect is NoExecute.
func Tolerates(pod *corev1.Pod, taints []corev1.Taint) bool {
	for i := range taints {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			// Comparing tolerations are alpha in Kubernetes: a pod that has one is evicted, which its budget allows, and not deleted.
			return t.TolerationSeconds == nil && t.ToleratesTaint(logr.Discard(), &taints[i], false)
		}) {
			return false
		}
	}
	return true
}

func (r *Rule) selects(pod *corev1.Pod) bool {
	return (len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, pod.Namespace)) &&
		(r.Selector == nil || r.Selector.Matches(labels.Set(pod.Labels)))
}

// Conventions of other projects.
const (
	// LabelClusterAPI is the Cluster API's pod label, with the values below.
	LabelClusterAPI = "cluster.x-k8s.io/drain"
	// AnnotationKarpenter is Karpenter's pod annotation: "true", or a duration counted from the pod's start.
	AnnotationKarpenter = "karpenter.sh/do-not-disrupt"
)

// behavior returns what is done with a pod, and its group.
func (o *Options) behavior(pod *corev1.Pod) (behavior Behavior, order int32) {
	if o.ClusterAPI {
		switch pod.Labels[LabelClusterAPI] {
		case "skip":
			// Kubernetes itself deletes a Pod that does not tolerate a taint, whatever its labels: nothing would keep its budget.
			if len(o.Taints) == 0 {
				return Skip, 0
			}
		case "wait-completed":
			return WaitCompleted, 0
		}
	}
	for i := range o.Rules {
		if rule := &o.Rules[i]; rule.selects(pod) {
			if rule.Behavior == "" {
				return Evict, rule.Order
			}
			return rule.Behavior, rule.Order
		}
	}
	return Evict, 0
}

// protectedUntil returns until when Karpenter's annotation protects a pod against eviction: the zero time if it does not; forever reports whether the
// protection has no end.
func (o *Options) protectedUntil(pod *corev1.Pod, now time.Time) (until time.Time, forever bool) {
	text := pod.Annotations[AnnotationKarpenter]
	switch {
	case !o.Karpenter || text == "":
		return time.Time{}, false
	case text == "true":
		return time.Time{}, true
	}
	length, err := time.ParseDuration(text)
	if err != nil || length <= 0 || pod.Status.StartTime == nil {
		return time.Time{}, false
	}
	if end := pod.Status.StartTime.Add(length); end.After(now) {
		return end, false
	}
	return time.Time{}, false
}
