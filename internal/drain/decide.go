package drain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
)

// Input is everything that Decide looks at. The objects are not changed.
type Input struct {
	// Node is the node to be drained.
	Node *corev1.Node
	// Pods are all pods bound to it.
	Pods []*corev1.Pod
	// Budgets returns the PodDisruptionBudgets that select a pod.
	Budgets func(pod *corev1.Pod) []*policyv1.PodDisruptionBudget
	// DaemonSetExists tells whether there is a DaemonSet of this name.
	DaemonSetExists func(key types.NamespacedName) bool
	// Answered returns the last answer to an eviction of a pod, if there is one that still matters.
	Answered func(pod types.UID) (Answer, bool)
	// Attached are the volumes attached to the node that pods which stay do not use; only looked at when volumes are waited for.
	Attached []string
	// Emptied is when it was first seen that no pod is left that has to leave; zero is Since.
	Emptied time.Time
	// Options change how it is drained.
	Options Options
	// Since is when the node was cordoned; zero when it is not yet, as in a plan.
	Since time.Time
	// Now is the time of the decision.
	Now time.Time
}

// Task is one request to make a pod leave.
type Task struct {
	UID                   types.UID
	Namespace, Name, Node string
	// Grace makes it a deletion with this grace period in seconds, which no budget stops; nil for an eviction.
	Grace *int64
	// Blocked tells that its budget says no, by all that is known now: asking makes no sense before that changes.
	Blocked bool
}

// Decision is what is to be done now, and what there is to say about it.
type Decision struct {
	Tasks  []Task
	Report Report
}

// AnnotationMirror marks the API's image of a static pod.
const AnnotationMirror = "kubernetes.io/config.mirror"

// defaultGrace is the grace period of a pod that names none.
const defaultGrace = 30 * time.Second

// Decide looks at every pod of a node. It never fails.
func Decide(in Input) Decision {
	in.Options = in.Options.bounded()
	d := decider{in: in, out: Decision{Report: Report{Alone: map[Exempt]int{}, Total: len(in.Pods)}}, lost: in.unreachable()}
	pods := slices.Clone(in.Pods)
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		d.look(pod)
	}
	d.takeTurns()
	d.finish()
	return d.out
}

type decider struct {
	in  Input
	out Decision
	// lost tells that the node is unreachable and its pods are not waited for.
	lost bool
	// ordered are the pods that leave in groups, by the group's order and priority.
	ordered []ordered
}

type ordered struct {
	pod             *corev1.Pod
	order, priority int32
}

func (in *Input) unreachable() bool {
	if in.Options.Unreachable != Ignore && in.Options.Unreachable != OutOfService {
		return false
	}
	for _, condition := range in.Node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionUnknown
		}
	}
	return false
}

// look sorts a pod into those that are left alone, those that are waited for, and those that have to be evicted.
func (d *decider) look(pod *corev1.Pod) {
	if exempt := d.exempt(pod); exempt != "" {
		d.out.Report.Alone[exempt]++
		return
	}
	behavior, order := d.in.Options.behavior(pod)
	switch behavior {
	case Skip:
		d.out.Report.Alone[Skipped]++
		return
	case WaitCompleted:
		if finished(pod) {
			d.out.Report.Alone[Finished]++
			return
		}
		if pod.DeletionTimestamp == nil {
			d.left(pod, Left{Reason: Completion})
			return
		}
	}
	if until, forever := d.in.Options.undisturbed(pod, d.in.Now); pod.DeletionTimestamp == nil && (forever || !until.IsZero()) {
		d.left(pod, Left{Reason: DoNotDisrupt, Until: until})
		if !forever {
			d.out.Report.wake(until)
		}
		return
	}
	next := ordered{pod: pod, order: order}
	if d.in.Options.ByPriority && pod.Spec.Priority != nil {
		next.priority = *pod.Spec.Priority
	}
	d.ordered = append(d.ordered, next)
}

// exempt says why a pod is none of a drain's, whatever the options are.
func (d *decider) exempt(pod *corev1.Pod) Exempt {
	if _, static := pod.Annotations[AnnotationMirror]; static {
		return Static
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner != nil && owner.Kind == "DaemonSet" && !finished(pod) &&
		d.in.DaemonSetExists(types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}) {
		return OfDaemonSet
	}
	if d.lost && pod.DeletionTimestamp != nil && d.in.Now.After(endOf(pod).Add(time.Second)) {
		d.out.Report.OutOfService = d.in.Options.Unreachable == OutOfService
		return Lost
	}
	return ""
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// takeTurns evicts the lowest group of which any pod is left. Pods that are ending already hold back those after them, too.
func (d *decider) takeTurns() {
	rank := func(a, b ordered) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.priority, b.priority))
	}
	if len(d.ordered) == 0 {
		return
	}
	first := slices.MinFunc(d.ordered, rank)
	for _, next := range d.ordered {
		switch {
		case next.pod.DeletionTimestamp != nil:
			d.left(next.pod, d.ending(next.pod))
		case rank(next, first) > 0:
			d.left(next.pod, Left{Reason: Turn})
		default:
			d.evict(next.pod)
		}
	}
}

// endOf returns when the grace period of a pod that is being deleted ends. The API server adds the grace period to the time of the request
// without a look at overflow (apiserver/pkg/registry/rest/delete.go), so of a period that is out of range the timestamp says nothing.
func endOf(pod *corev1.Pod) time.Time {
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil && bounded.Seconds(*seconds) == bounded.MaxDuration {
		return pod.CreationTimestamp.Add(bounded.MaxDuration)
	}
	return pod.DeletionTimestamp.Time
}

// ending says of a pod that is being deleted how far that is.
func (d *decider) ending(pod *corev1.Pod) Left {
	until := endOf(pod)
	since := until
	if pod.DeletionGracePeriodSeconds != nil {
		since = until.Add(-bounded.Seconds(*pod.DeletionGracePeriodSeconds))
	}
	// One second is what the timestamp may be off, having no fractions.
	if grace := until.Add(time.Second); d.in.Now.Before(grace) {
		d.out.Report.wake(grace)
		return Left{Reason: Terminating, Since: since, Until: until}
	}
	if len(pod.Finalizers) > 0 {
		return Left{Reason: Finalizer, Detail: strings.Join(pod.Finalizers, ", "), Since: since, Until: until}
	}
	return Left{Reason: Overdue, Since: since, Until: until}
}

// evict asks for a pod's eviction and says what keeps it.
func (d *decider) evict(pod *corev1.Pod) {
	answer, known := d.in.Answered(pod.UID)
	verdict := Assess(pod, d.in.Budgets(pod))
	d.out.Tasks = append(d.out.Tasks, Task{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Blocked: verdict.Outcome != Accepted,
	})
	switch {
	case known && answer.Done():
		// The cache will show it in a moment; that its budget is spent now is its own doing.
		d.left(pod, Left{Reason: Evicting})
	case verdict.Outcome != Accepted:
		d.left(pod, Left{Reason: budgetReason(verdict), Detail: verdict.Text})
	case known:
		d.left(pod, Left{Reason: reasonOf[answer.Outcome], Detail: answer.Message})
	default:
		d.left(pod, Left{Reason: Evicting})
	}
}

func budgetReason(verdict Verdict) Reason {
	if verdict.Never {
		return BudgetNever
	}
	return reasonOf[verdict.Outcome]
}

// reasonOf says why a pod is there after an answer that left it there.
var reasonOf = map[Outcome]Reason{
	BudgetSpent: Budget, BudgetUnknown: Budget, BudgetBroken: Budget, SeveralBudgets: TwoBudgets, NamespaceTerminating: EndOfNamespace,
	Refused: Webhook, Throttled: Failing, Forbidden: NotAllowed, Invalid: NotAllowed, Failed: Failing,
}

// left notes a pod that is still there, and deletes it when it would outlast a deadline with force.
func (d *decider) left(pod *corev1.Pod, left Left) {
	left.Namespace, left.Name, left.UID = pod.Namespace, pod.Name, pod.UID
	d.out.Report.Left = append(d.out.Report.Left, left)
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
	// What is left until the deadline, at least a second: with none the API would forget the pod while it may still run.
	remaining := max((end.Sub(d.in.Now) + time.Second - 1).Truncate(time.Second), time.Second)
	if pod.DeletionTimestamp != nil && !d.in.Now.Add(remaining).Before(endOf(pod)) {
		return
	}
	seconds := int64(min(remaining, max(grace, time.Second)) / time.Second)
	d.force(Task{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Grace: &seconds})
}

// force puts a deletion in the place of the pod's eviction.
func (d *decider) force(task Task) {
	for i := range d.out.Tasks {
		if d.out.Tasks[i].UID == task.UID {
			d.out.Tasks[i] = task
			return
		}
	}
	d.out.Tasks = append(d.out.Tasks, task)
}

// lookAgain is how soon a drain with pods left looks again when nothing happens at all: events are the rule, this is the net below.
const lookAgain = 30 * time.Second

// finish decides on what comes after the pods.
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
		report.Late = true
	}
}

func (d *decider) afterPods() {
	options, report := &d.in.Options, &d.out.Report
	if len(report.Left) > 0 {
		report.wake(d.in.Now.Add(lookAgain))
		return
	}
	if end := d.in.Since.Add(options.MinimumTime); d.in.Now.Before(end) {
		report.NotBefore = end
		report.wake(end)
	}
	if !options.Volumes || d.lost {
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
