// Package drain cordons nodes and decides how their pods are evicted, for NodeMaintenances, for the deletion of Machines and for upgrades. Decide is
// called in each reconciliation with what the cluster shows, and returns for every pod on the node what has to be done and why the pod is still
// there. Package engine makes the requests.
package drain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/nodestate"
)

// Input is what Decide depends on. It does not change the objects.
type Input struct {
	// Node is the node to be drained.
	Node *corev1.Node
	// Pods are all pods bound to it.
	Pods []*corev1.Pod
	// Budgets returns the PodDisruptionBudgets that select a pod.
	Budgets func(pod *corev1.Pod) []*policyv1.PodDisruptionBudget
	// DaemonSetExists reports whether a DaemonSet exists.
	DaemonSetExists func(key types.NamespacedName) bool
	// LastAnswer returns the last answer to the eviction of a pod, if there is one.
	LastAnswer func(pod types.UID) (Answer, bool)
	// Attached are the volumes attached to the node, except volumes of pods that remain on it; needed only with Options.Volumes.
	Attached []string
	// Emptied is when the last pod that has to leave was first seen to be gone; zero is Since.
	Emptied time.Time
	// Options configure the drain.
	Options Options
	// Since is when the node was cordoned; zero when it is not cordoned yet, as for a preview.
	Since time.Time
	// Now is the time of the decision.
	Now time.Time
}

// Task is one request to make a pod leave.
type Task struct {
	UID                   types.UID
	Namespace, Name, Node string
	// Grace is the grace period in seconds of a deletion, which is not subject to budgets; nil for an eviction.
	Grace *int64
	// Blocked reports whether the budgets in the cache do not allow the eviction: a request would fail until that changes.
	Blocked bool
}

// Decision is what has to be done now, and the state of the drain.
type Decision struct {
	Tasks  []Task
	Report Report
}

// AnnotationMirror is the annotation of the mirror pod of a static pod.
const AnnotationMirror = "kubernetes.io/config.mirror"

// defaultGrace is the grace period of a pod without one.
const defaultGrace = 30 * time.Second

// Decide returns what has to be done to drain a node, and why it is not drained yet.
func Decide(in Input) Decision {
	in.Options = in.Options.bounded()
	d := decider{in: in, out: Decision{Report: Report{Exempted: map[Exempt]int{}, Total: len(in.Pods)}}, unreachable: in.ignoresUnreachable()}
	d.declareOutOfService()
	pods := slices.Clone(in.Pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		d.addPod(pod)
	}
	d.evictFirstGroup()
	d.finish()
	return d.out
}

// decider accumulates a Decision.
type decider struct {
	in  Input
	out Decision
	// unreachable reports whether the node is unreachable and its terminating pods are not waited for.
	unreachable bool
	// candidates are the pods to evict, in groups by order and priority.
	candidates []candidate
	// isDeclared reports whether the node is off, as far as the user and its kubelet say.
	isDeclared bool
	// webhooks has a message of each webhook that keeps pods.
	webhooks map[string]string
}

type candidate struct {
	pod             *corev1.Pod
	order, priority int32
}

// ignoresUnreachable reports whether the node is unreachable and Options.Unreachable is not Wait.
func (in *Input) ignoresUnreachable() bool {
	if in.Options.Unreachable != Ignore && in.Options.Unreachable != OutOfService {
		return false
	}
	_, unknown := in.unknownSince()
	return unknown
}

// unknownSince returns since when nothing has been known of the node's kubelet; unknown is false if something is.
func (in *Input) unknownSince() (since time.Time, unknown bool) {
	ready := nodestate.Condition(in.Node, corev1.NodeReady)
	return nodestate.ReadyChange(in.Node), ready != nil && ready.Status == corev1.ConditionUnknown
}

// outOfServiceGrace is how long the kubelet of a cordoned node has to be silent before the node gets the out-of-service taint. With
// Options.Unreachable the user says that such a node is off; a kubelet that only restarts reports again within this time.
const outOfServiceGrace = time.Minute

// declareOutOfService requests the out-of-service taint, even if evictions are blocked: no kubelet can end the pods there
// (https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown).
func (d *decider) declareOutOfService() {
	if !d.unreachable || d.in.Options.Unreachable != OutOfService || d.in.Since.IsZero() {
		return
	}
	since, _ := d.in.unknownSince()
	if end := since.Add(outOfServiceGrace); d.in.Now.Before(end) {
		d.out.Report.wake(end)
		return
	}
	d.out.Report.OutOfService, d.isDeclared = true, true
}

// addPod counts a pod as exempt, reports that the drain waits for it, or adds it to the candidates.
func (d *decider) addPod(pod *corev1.Pod) {
	if exempt := d.exempt(pod); exempt != "" {
		d.addExempt(pod, exempt)
		return
	}
	if finished(pod) && pod.DeletionTimestamp == nil {
		// An eviction cannot disturb a pod that has finished.
		d.evict(pod)
		return
	}
	behavior, order := d.in.Options.behavior(pod)
	switch {
	case behavior == Skip:
		d.out.Report.Exempted[Skipped]++
		return
	case behavior == WaitCompleted && pod.DeletionTimestamp == nil:
		d.addRemaining(pod, RemainingPod{Reason: Completion})
		return
	}
	if d.addProtected(pod) {
		return
	}
	if d.staysReturned(pod) {
		d.out.Report.Exempted[Returned]++
		return
	}
	d.noteMayReturn(pod)
	next := candidate{pod: pod, order: order}
	if d.in.Options.ByPriority && pod.Spec.Priority != nil {
		next.priority = *pod.Spec.Priority
	}
	d.candidates = append(d.candidates, next)
}

// addProtected adds a pod to the report that an annotation protects; it returns false for any other one.
func (d *decider) addProtected(pod *corev1.Pod) bool {
	until, forever := d.in.Options.protectedUntil(pod, d.in.Now)
	if pod.DeletionTimestamp != nil || !forever && until.IsZero() {
		return false
	}
	d.addRemaining(pod, RemainingPod{Reason: DoNotDisrupt, Until: until})
	if !forever {
		d.out.Report.wake(until)
	}
	return true
}

// addExempt counts a pod that the drain does not concern. One of a DaemonSet is lost with the taints that the drain is for.
func (d *decider) addExempt(pod *corev1.Pod, exempt Exempt) {
	d.out.Report.Exempted[exempt]++
	if exempt == OnUnreachableNode && pod.DeletionTimestamp == nil {
		// Kubernetes does not delete a pod that tolerates the taint either. Its owner replaces it after an eviction.
		d.addTask(pod)
	}
	if exempt == OfDaemonSet && len(d.in.Options.Taints) > 0 {
		d.out.Report.Lost = append(d.out.Report.Lost, pod.Namespace+"/"+pod.Name)
	}
}

// exempt returns why a drain does not concern a pod, independent of rules; empty when it does.
func (d *decider) exempt(pod *corev1.Pod) Exempt {
	if _, static := pod.Annotations[AnnotationMirror]; static {
		return Static
	}
	if len(d.in.Options.Taints) > 0 && (finished(pod) || Tolerates(pod, d.in.Options.Taints)) {
		return Tolerating
	}
	switch {
	case d.isOfDaemonSet(pod):
		return OfDaemonSet
	case d.isUnanswerable(pod):
		return OnUnreachableNode
	}
	return ""
}

// isOfDaemonSet reports whether the DaemonSet of a pod would create it again.
func (d *decider) isOfDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && IsDaemonSet(owner) && !finished(pod) &&
		d.in.DaemonSetExists(types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name})
}

// isUnanswerable reports whether a pod is not waited for since the kubelet of an unreachable node cannot end it.
func (d *decider) isUnanswerable(pod *corev1.Pod) bool {
	if d.unreachable && pod.DeletionTimestamp != nil && d.in.Now.After(endOf(pod).Add(time.Second)) {
		d.out.Report.OutOfService = d.in.Options.Unreachable == OutOfService
		return true
	}
	return d.isDeclared && Tolerates(pod, []corev1.Taint{OutOfServiceTaint})
}

// IsDaemonSet reports whether the controller of a pod is a DaemonSet of Kubernetes. kubectl drain evicts the pods of others that only have its name
// (https://github.com/kubernetes/kubectl/blob/v0.34.0/pkg/drain/filters.go).
func IsDaemonSet(owner *metav1.OwnerReference) bool {
	return owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String()
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// evictFirstGroup evicts the first group that still has a pod. The next group waits for terminating pods, too.
func (d *decider) evictFirstGroup() {
	rank := func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.priority, b.priority))
	}
	if len(d.candidates) == 0 {
		return
	}
	// A pod that has returned holds up no other group while it is left in peace.
	counting := slices.DeleteFunc(slices.Clone(d.candidates), func(c candidate) bool {
		return c.pod.DeletionTimestamp == nil && d.returns(c.pod) && d.in.Now.Before(d.evictedAt(c.pod))
	})
	if len(counting) == 0 {
		counting = d.candidates
	}
	first := slices.MinFunc(counting, rank)
	for _, next := range d.candidates {
		switch {
		case next.pod.DeletionTimestamp != nil:
			d.addRemaining(next.pod, d.terminating(next.pod))
		case rank(next, first) > 0:
			d.addRemaining(next.pod, RemainingPod{Reason: Turn})
		case d.returns(next.pod):
			d.evictReturned(next.pod)
		default:
			d.evict(next.pod)
		}
	}
}

// endOf returns when the grace period of a terminating pod ends. The API server adds the grace period to the time of the request without a check for
// overflow (apiserver/pkg/registry/rest/delete.go), so that the timestamp is wrong for a period that is out of range.
func endOf(pod *corev1.Pod) time.Time {
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil && bounded.Seconds(*seconds) == bounded.MaxDuration {
		return pod.CreationTimestamp.Add(bounded.MaxDuration)
	}
	return pod.DeletionTimestamp.Time
}

// terminating returns the state of a terminating pod.
func (d *decider) terminating(pod *corev1.Pod) RemainingPod {
	until := endOf(pod)
	since := until
	if pod.DeletionGracePeriodSeconds != nil {
		since = until.Add(-bounded.Seconds(*pod.DeletionGracePeriodSeconds))
	}
	// The timestamp is in full seconds: it may be up to one second early.
	if grace := until.Add(time.Second); d.in.Now.Before(grace) {
		d.out.Report.wake(grace)
		return RemainingPod{Reason: Terminating, Since: since, Until: until}
	}
	if len(pod.Finalizers) > 0 {
		// The grace period is over, and a finalizer has no deadline.
		return RemainingPod{Reason: Finalizer, Detail: strings.Join(pod.Finalizers, ", "), Since: until}
	}
	return RemainingPod{Reason: Overdue, Since: since, Until: until}
}

// evict adds the task to evict a pod, and reports why it has not left yet.
func (d *decider) evict(pod *corev1.Pod) {
	answer, known := d.in.LastAnswer(pod.UID)
	verdict := d.addTask(pod)
	switch {
	case known && answer.Done():
		// The cache does not show the deletion yet. A spent budget is the effect of this eviction.
		d.addRemaining(pod, RemainingPod{Reason: Evicting})
	case verdict.Outcome != Accepted:
		d.addRemaining(pod, RemainingPod{Reason: budgetReason(verdict), Detail: verdict.Text})
	case known:
		d.addRemaining(pod, RemainingPod{Reason: reasonOf[answer.Outcome], Detail: d.detail(answer)})
	default:
		d.addRemaining(pod, RemainingPod{Reason: Evicting})
	}
}

// addTask adds the task to evict a pod, and returns the verdict of its budgets.
func (d *decider) addTask(pod *corev1.Pod) Verdict {
	verdict := Assess(pod, d.in.Budgets(pod))
	d.out.Tasks = append(d.out.Tasks, Task{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Blocked: verdict.Outcome != Accepted,
	})
	return verdict
}

// detail returns the message of an answer. Pods that the same webhook keeps share the message of the first one: a webhook may name each pod, and the
// report has one group for each message.
func (d *decider) detail(answer Answer) string {
	webhook := WebhookOf(answer.Message)
	if webhook == "" {
		return answer.Message
	}
	if d.webhooks[webhook] == "" {
		if d.webhooks == nil {
			d.webhooks = map[string]string{}
		}
		d.webhooks[webhook] = answer.Message
	}
	return d.webhooks[webhook]
}

func budgetReason(verdict Verdict) Reason {
	if verdict.Never {
		return BudgetNever
	}
	return reasonOf[verdict.Outcome]
}

// reasonOf has the reason why a pod is left after each answer that does not delete it.
var reasonOf = map[Outcome]Reason{
	BudgetSpent: Budget, BudgetUnknown: Budget, BudgetBroken: Budget, SeveralBudgets: TwoBudgets, NamespaceTerminating: EndOfNamespace,
	Refused: Webhook, Throttled: Failing, Forbidden: NotAllowed, Invalid: NotAllowed, Failed: Failing,
}

// addRemaining adds a pod to the report, and the task to delete it when Options.Force is set and its grace period would outlast the deadline.
func (d *decider) addRemaining(pod *corev1.Pod, left RemainingPod) {
	left.Namespace, left.Name, left.UID, left.HasVolume = pod.Namespace, pod.Name, pod.UID, hasVolume(pod)
	d.out.Report.Remaining = append(d.out.Report.Remaining, left)
	if !d.in.Options.Force || d.in.Options.Deadline <= 0 || d.in.Since.IsZero() {
		return
	}
	end := d.in.Since.Add(d.in.Options.Deadline)
	if pod.DeletionTimestamp != nil && !endOf(pod).After(end.Add(time.Second)) {
		return
	}
	grace := defaultGrace
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = bounded.Seconds(*pod.Spec.TerminationGracePeriodSeconds)
	}
	if last := end.Add(-grace); d.in.Now.Before(last) {
		d.out.Report.wake(last)
		return
	}
	// The time until the deadline, at least a second: with a grace period of zero the API server removes the pod while it may still run.
	remaining := max((end.Sub(d.in.Now) + time.Second - 1).Truncate(time.Second), time.Second)
	if pod.DeletionTimestamp != nil && !d.in.Now.Add(remaining).Before(endOf(pod)) {
		return
	}
	seconds := int64(min(remaining, max(grace, time.Second)) / time.Second)
	d.replaceTask(Task{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Grace: &seconds})
}

// replaceTask adds a deletion in place of the pod's eviction.
func (d *decider) replaceTask(task Task) {
	for i := range d.out.Tasks {
		if d.out.Tasks[i].UID == task.UID {
			d.out.Tasks[i] = task
			return
		}
	}
	d.out.Tasks = append(d.out.Tasks, task)
}

// resync is how soon a drain with pods left is decided again without an event.
const resync = 30 * time.Second

// finish completes the report with the state of the node, its volumes and the deadline.
func (d *decider) finish() {
	if d.in.Since.IsZero() {
		return
	}
	d.afterPods()
	report, deadline := &d.out.Report, d.in.Options.Deadline
	if deadline <= 0 || report.Done() {
		return
	}
	if end := d.in.Since.Add(deadline); d.in.Now.Before(end) {
		report.wake(end)
	} else {
		report.DeadlineExceeded = true
	}
}

// afterPods reports what the drain waits for when no pod is left.
func (d *decider) afterPods() {
	options, report := &d.in.Options, &d.out.Report
	if len(report.Remaining) > 0 {
		report.wake(d.in.Now.Add(resync))
		return
	}
	if end := d.in.Since.Add(options.MinimumTime); d.in.Now.Before(end) {
		report.NotBefore = end
		report.wake(end)
	}
	if !options.Volumes || d.unreachable {
		return
	}
	from := d.in.Since
	if d.in.Emptied.After(from) {
		from = d.in.Emptied
	}
	end := from.Add(options.VolumesTimeout)
	if options.VolumesTimeout > 0 && !d.in.Now.Before(end) {
		return
	}
	report.Volumes = slices.Sorted(slices.Values(d.in.Attached))
	if len(report.Volumes) > 0 && options.VolumesTimeout > 0 {
		report.wake(end)
	}
}
