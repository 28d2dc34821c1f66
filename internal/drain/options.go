package drain

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/internal/bounded"
)

// Behavior says what a drain does with a pod.
type Behavior string

// The behaviours.
const (
	// Evict asks the pod to leave. The zero value counts as Evict.
	Evict Behavior = "Drain"
	// Skip leaves the pod on the node and does not wait for it.
	Skip Behavior = "Skip"
	// WaitCompleted never evicts the pod and waits until it has finished by itself.
	WaitCompleted Behavior = "WaitCompleted"
)

// Unreachable says what becomes of pods that a node without a kubelet cannot end.
type Unreachable string

// The policies.
const (
	// Wait for them. The zero value counts as Wait.
	Wait Unreachable = "Wait"
	// Ignore those that are past their grace period.
	Ignore Unreachable = "Ignore"
	// OutOfService is Ignore, and asks for the taint node.kubernetes.io/out-of-service.
	OutOfService Unreachable = "OutOfService"
)

// Options change how a node is drained. The zero value is what kubectl drain --force --ignore-daemonsets --delete-emptydir-data does.
type Options struct {
	// ByPriority evicts pods of a lower priority first.
	ByPriority bool
	// Rules say what is done with some pods; the first that selects a pod counts.
	Rules []Rule
	// ClusterAPI respects the pod label cluster.x-k8s.io/drain, Karpenter the annotation karpenter.sh/do-not-disrupt.
	ClusterAPI, Karpenter bool
	// MinimumTime is how long after the cordon the node is not called drained; zero for none.
	MinimumTime time.Duration
	// Deadline is how long after the cordon the drain is late; zero for never. With Force the pods that would outlast it are deleted.
	Deadline time.Duration
	Force    bool
	// Unreachable says what becomes of pods that the node cannot end.
	Unreachable Unreachable
	// Volumes waits until the node's volumes are detached, VolumesTimeout after the pods have gone at the latest; zero is without end.
	Volumes        bool
	VolumesTimeout time.Duration
}

// bounded returns the options with durations that can be added up without overflow.
func (o Options) bounded() Options {
	o.MinimumTime, o.Deadline = bounded.Duration(o.MinimumTime), bounded.Duration(o.Deadline)
	o.VolumesTimeout = bounded.Duration(o.VolumesTimeout)
	return o
}

// Rule says what is done with the pods that it selects.
type Rule struct {
	// Namespaces are those that the rule is for; empty is all.
	Namespaces []string
	// Selector selects pods by their labels; nil is all.
	Selector labels.Selector
	// Behavior is what is done with them.
	Behavior Behavior
	// Order puts them into a group; the lowest is evicted first.
	Order int32
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

// behavior says what is done with a pod, and in which group.
func (o *Options) behavior(pod *corev1.Pod) (behavior Behavior, order int32) {
	if o.ClusterAPI {
		switch pod.Labels[LabelClusterAPI] {
		case "skip":
			return Skip, 0
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

// undisturbed tells until when a pod must not be evicted, by Karpenter's annotation: the zero time when it may be, forever when it says so.
func (o *Options) undisturbed(pod *corev1.Pod, now time.Time) (until time.Time, forever bool) {
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
