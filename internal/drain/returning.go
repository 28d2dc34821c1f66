package drain

import (
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Returning is the policy for pods whose owner puts them on the node although it is cordoned.
type Returning string

// The policies.
const (
	// LeaveTolerating leaves pods that tolerate the cordon on the node, as pods of DaemonSets do. The zero value means LeaveTolerating.
	LeaveTolerating Returning = "Tolerating"
	// LeaveAll leaves all of them.
	LeaveAll Returning = "Ignore"
	// LeaveNone leaves none: the node is not drained before they stay away.
	LeaveNone Returning = "Wait"
)

const (
	// maxReturnDelay bounds how long a pod that has returned stays before it is evicted.
	maxReturnDelay = 10 * time.Minute
	// lateArrival is how long after the cordon a new pod counts as already on its way: the scheduler may not have seen the cordon.
	lateArrival = 10 * time.Second
)

// returns reports whether the owner of a pod has created it after the cordon of its node. If the owner replaces evicted pods there, the drain would
// evict them in a loop. The times of creation and cordon are read from the cluster, so that every process decides alike.
func (d *decider) returns(pod *corev1.Pod) bool {
	return !d.in.Since.IsZero() && metav1.GetControllerOfNoCopy(pod) != nil && pod.CreationTimestamp.After(d.in.Since)
}

// staysReturned reports whether a pod that has returned is left on the node. A taint with the effect NoExecute deletes it all the same.
func (d *decider) staysReturned(pod *corev1.Pod) bool {
	if len(d.in.Options.Taints) > 0 || pod.DeletionTimestamp != nil || !d.returns(pod) {
		return false
	}
	switch d.in.Options.Returning {
	case LeaveAll:
		return true // as its user wants it
	case LeaveNone:
		return false
	default:
		// If the pod stayed, its volume would stay attached, and nothing would ask its budget.
		if !Tolerates(pod, []corev1.Taint{cordonTaint}) || hasVolume(pod) || Assess(pod, d.in.Budgets(pod)).Outcome != Accepted {
			return false
		}
	}
	d.noteReturning(pod)
	return true
}

// evictReturned evicts a pod that has returned when it has been on the node for as long as the node was cordoned before, so that the time between
// two evictions doubles.
func (d *decider) evictReturned(pod *corev1.Pod) {
	delay := pod.CreationTimestamp.Sub(d.in.Since)
	if delay > lateArrival {
		d.noteReturning(pod)
	}
	at := d.evictedAt(pod)
	switch {
	case !d.in.Now.Before(at):
		d.evict(pod)
		return
	case delay > lateArrival:
		d.out.Report.Remaining = append(d.out.Report.Remaining, RemainingPod{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Reason: PodsReturn, Detail: ownerText(pod), Until: at, HasVolume: hasVolume(pod),
		})
	default:
		d.addRemaining(pod, RemainingPod{Reason: Evicting})
	}
	d.out.Report.wake(at)
}

// evictedAt returns when a pod that has returned is evicted.
func (d *decider) evictedAt(pod *corev1.Pod) time.Time {
	return pod.CreationTimestamp.Add(min(pod.CreationTimestamp.Sub(d.in.Since), maxReturnDelay))
}

func hasVolume(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.PersistentVolumeClaim != nil })
}

// noteReturning notes the owner of a pod that has returned to a cordoned node. What it tolerates of a node with other taints is its own affair.
func (d *decider) noteReturning(pod *corev1.Pod) {
	if len(d.in.Options.Taints) > 0 {
		return
	}
	d.out.Report.Returning = addSorted(d.out.Report.Returning, ownerText(pod))
}

// noteMayReturn notes, before the cordon, the owner of a pod that could come back because it tolerates the cordon.
func (d *decider) noteMayReturn(pod *corev1.Pod) {
	if d.in.Since.IsZero() && len(d.in.Options.Taints) == 0 && metav1.GetControllerOfNoCopy(pod) != nil &&
		Tolerates(pod, []corev1.Taint{cordonTaint}) {
		d.out.Report.MayReturn = addSorted(d.out.Report.MayReturn, ownerText(pod))
	}
}

func addSorted(texts []string, text string) []string {
	at, found := slices.BinarySearch(texts, text)
	if found {
		return texts
	}
	return slices.Insert(texts, at, text)
}

// ownerText names the controller of a pod, which may be any text.
func ownerText(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, owner.Kind+" "+pod.Namespace+"/"+owner.Name)
}
