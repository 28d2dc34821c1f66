package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/status"
)

// Reason is why a pod is still on the node. The reasons are label values of a metric.
type Reason string

// The reasons.
const (
	// Evicting: it is being evicted, and nothing blocks the eviction.
	Evicting Reason = "Evicting"
	// Terminating: it is terminating, within its grace period.
	Terminating Reason = "Terminating"
	// Overdue: its grace period is over, and the kubelet has not reported that it has terminated.
	Overdue Reason = "Overdue"
	// Finalizer: it has terminated, and a finalizer keeps the object.
	Finalizer Reason = "Finalizer"
	// Budget: its PodDisruptionBudget allows no disruption now.
	Budget Reason = "Budget"
	// BudgetNever: its PodDisruptionBudget cannot allow one before it or its pods change.
	BudgetNever Reason = "BudgetNever"
	// TwoBudgets: several PodDisruptionBudgets select it.
	TwoBudgets Reason = "SeveralBudgets"
	// Webhook: an admission webhook denies the eviction.
	Webhook Reason = "Webhook"
	// NotAllowed: Drover may not evict it, or the request is invalid.
	NotAllowed Reason = "Forbidden"
	// EndOfNamespace: its namespace is being deleted.
	EndOfNamespace Reason = "NamespaceTerminating"
	// Failing: the API server limits requests, or the request fails.
	Failing Reason = "Error"
	// Turn: pods of a lower group leave first.
	Turn Reason = "Turn"
	// Completion: it is not evicted; the drain waits until it has finished.
	Completion Reason = "Completion"
	// DoNotDisrupt: an annotation protects it.
	DoNotDisrupt Reason = "DoNotDisrupt"
	// PodsReturn: its owner puts pods on the node again; it is evicted after a while.
	PodsReturn Reason = "PodsReturn"
)

// Reasons lists all reasons. The reasons that a user has to resolve come first.
var Reasons = []Reason{
	BudgetNever, TwoBudgets, NotAllowed, Finalizer, Overdue, PodsReturn, Budget, Webhook, DoNotDisrupt, Completion, Failing, EndOfNamespace,
	Terminating, Evicting, Turn,
}

// Blocks reports whether a pod with this reason does not leave soon unless a user or another controller acts.
func (r Reason) Blocks() bool {
	switch r {
	case BudgetNever, TwoBudgets, NotAllowed, Finalizer, Overdue, Budget, Webhook, DoNotDisrupt, PodsReturn:
		return true
	}
	return false
}

// Exempt is why a drain does not concern a pod.
type Exempt string

// The reasons for an exemption.
const (
	// OfDaemonSet: its DaemonSet would create it again.
	OfDaemonSet Exempt = "DaemonSet"
	// Static: the kubelet runs it from a file.
	Static Exempt = "static"
	// Skipped: a rule or label skips it.
	Skipped Exempt = "skipped"
	// Tolerating: it tolerates the taints that the drain is for, or it has finished.
	Tolerating Exempt = "tolerating"
	// OnUnreachableNode: the node is unreachable, and its kubelet cannot terminate it.
	OnUnreachableNode Exempt = "on an unreachable node"
	// Returned: its owner put it on the node although that was cordoned, and would do so again.
	Returned Exempt = "returned"
)

var exemptions = []Exempt{OfDaemonSet, Static, Skipped, Tolerating, OnUnreachableNode, Returned}

// RemainingPod is a pod that is still on the node and has to leave.
type RemainingPod struct {
	Namespace, Name string
	UID             types.UID
	Reason          Reason
	// Detail describes the reason, with the same text for all pods with the same cause; may be empty.
	Detail string
	// Since and Until are the start and the end of a termination or a wait; zero if not known.
	Since, Until time.Time
	// HasVolume reports whether it has a PersistentVolumeClaim.
	HasVolume bool
}

// Report is the state of a drain, and why it is not finished.
type Report struct {
	// Remaining are the pods that still have to leave, sorted by namespace and name.
	Remaining []RemainingPod
	// Exempted counts the pods that the drain does not concern.
	Exempted map[Exempt]int
	// Lost are the names of the pods of DaemonSets that do not tolerate the taints of Options.Taints, sorted: Kubernetes deletes them then.
	Lost []string
	// Total is the number of all pods on the node.
	Total int
	// DeadlineExceeded reports whether the deadline is over and the drain is not finished.
	DeadlineExceeded bool
	// NotBefore is the earliest time at which the node counts as drained; zero when it is over.
	NotBefore time.Time
	// Volumes are the volumes that are still attached, sorted, when no pod is left and the drain waits for them.
	Volumes []string
	// Wake is when to decide again without an event; zero for never.
	Wake time.Time
	// OutOfService reports whether the node needs the taint node.kubernetes.io/out-of-service.
	OutOfService bool
	// Returning are the owners whose pods come back to the node, sorted, with their kinds. MayReturn are the owners whose pods could come back; it is
	// set before the node is cordoned.
	Returning, MayReturn []string
}

// Done reports whether the node is drained.
func (r *Report) Done() bool {
	return len(r.Remaining) == 0 && r.NotBefore.IsZero() && len(r.Volumes) == 0
}

// Blocked reports whether a pod does not leave soon unless a user or another controller acts.
func (r *Report) Blocked() bool {
	return slices.ContainsFunc(r.Remaining, func(pod RemainingPod) bool { return pod.Reason.Blocks() })
}

// BlockedByReturning reports whether only pods that return to the node keep it from being drained.
func (r *Report) BlockedByReturning() bool {
	return len(r.Remaining) > 0 && !slices.ContainsFunc(r.Remaining, func(pod RemainingPod) bool {
		return pod.Reason.Blocks() && pod.Reason != PodsReturn
	})
}

// Stuck returns the namespace and name of a remaining pod; empty for none. It prefers a pod that does not leave soon.
func (r *Report) Stuck() string {
	if len(r.Remaining) == 0 {
		return ""
	}
	at := max(0, slices.IndexFunc(r.Remaining, func(pod RemainingPod) bool { return pod.Reason.Blocks() }))
	return r.Remaining[at].Namespace + "/" + r.Remaining[at].Name
}

// wake moves Wake to an earlier time.
func (r *Report) wake(at time.Time) { r.Wake = bounded.Earliest(r.Wake, at) }

// Bounds of the text, which kubectl shows in one line.
const (
	maxGroups   = 5
	maxNames    = 3
	maxDetail   = 300
	clockLayout = "15:04:05Z"
)

// Text describes what the drain waits for, in the order of Reasons. It is the same for the same situation: it has no durations.
func (r *Report) Text() string {
	switch {
	case len(r.Remaining) > 0:
		return r.leftText()
	case len(r.Volumes) > 0:
		return fmt.Sprintf("%d volumes are still attached: %s", len(r.Volumes), Few(r.Volumes))
	case !r.NotBefore.IsZero():
		return "all pods have left; pods that were on their way are awaited until " + r.NotBefore.UTC().Format(clockLayout)
	}
	return "all pods have left" + r.exemptedText() + r.ReturningText()
}

// ReturningText says whose pods come back to the node, and what to do; empty if none do.
func (r *Report) ReturningText() string {
	if len(r.Returning) == 0 {
		return ""
	}
	return fmt.Sprintf("; pods of %s come back to the cordoned node: scale their owner down, remove their toleration of %s or their spec.nodeName, or "+
		"let them stay with spec.drain.returningPods of a NodeMaintenance", Few(r.Returning), corev1.TaintNodeUnschedulable)
}

func (r *Report) exemptedText() string {
	var parts []string
	for _, exempt := range exemptions {
		if n := r.Exempted[exempt]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, exempt))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (left alone: " + strings.Join(parts, ", ") + ")"
}

// Group has the pods that are left for the same reason.
type Group struct {
	Reason Reason
	Detail string
	// Pods are their names with namespaces, sorted.
	Pods []string
	// Since is the earliest start, Until the latest end of the pods; zero if not known.
	Since, Until time.Time
}

// Groups returns the pods that are left, grouped by reason and detail, in the order of Reasons.
func (r *Report) Groups() []Group {
	byKey := map[[2]string]*Group{}
	var groups []*Group
	for _, pod := range r.Remaining {
		key := [2]string{string(pod.Reason), pod.Detail}
		group := byKey[key]
		if group == nil {
			group = &Group{Reason: pod.Reason, Detail: pod.Detail}
			byKey[key], groups = group, append(groups, group)
		}
		group.Pods = append(group.Pods, pod.Namespace+"/"+pod.Name)
		group.Since = bounded.Earliest(group.Since, pod.Since)
		if pod.Until.After(group.Until) {
			group.Until = pod.Until
		}
	}
	slices.SortFunc(groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(slices.Index(Reasons, a.Reason), slices.Index(Reasons, b.Reason)), strings.Compare(a.Detail, b.Detail))
	})
	out := make([]Group, len(groups))
	for i, group := range groups {
		slices.Sort(group.Pods)
		out[i] = *group
	}
	return out
}

func (r *Report) leftText() string {
	groups := r.Groups()
	var parts []string
	for i := range groups[:min(len(groups), maxGroups)] {
		parts = append(parts, groups[i].text())
	}
	if more := len(groups) - maxGroups; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more reasons", more))
	}
	return fmt.Sprintf("%s left: %s", pods(len(r.Remaining)), strings.Join(parts, "; ")) + r.ReturningText()
}

// phrases describe the pods of each reason.
var phrases = map[Reason]string{
	Evicting: "being evicted", Terminating: "terminating", Overdue: "past their grace period and not ended by the kubelet",
	Finalizer: "ended and kept by a finalizer", Budget: "blocked", BudgetNever: "blocked until the budget changes", TwoBudgets: "blocked",
	Webhook: "refused by a webhook", NotAllowed: "refused", EndOfNamespace: "ending with their namespace", Failing: "not evicted yet",
	Turn: "waiting for their turn", Completion: "to finish by themselves", DoNotDisrupt: "protected by " + AnnotationKarpenter,
	PodsReturn: "put back by their owner, not evicted",
}

func (g *Group) text() string {
	text := fmt.Sprintf("%d %s", len(g.Pods), phrases[g.Reason])
	switch {
	case !g.Since.IsZero() && !g.Until.IsZero():
		text += fmt.Sprintf(" since %s until %s", g.Since.UTC().Format(clockLayout), g.Until.UTC().Format(clockLayout))
	case !g.Until.IsZero():
		text += " until " + g.Until.UTC().Format(clockLayout)
	case !g.Since.IsZero():
		text += " since " + g.Since.UTC().Format(clockLayout)
	}
	if g.Detail != "" {
		text += " (" + bounded.Beginning(g.Detail, maxDetail) + ")"
	}
	return text + ": " + Few(g.Pods)
}

// Few joins the first names and counts the others.
func Few(names []string) string { return status.Names(names, maxNames) }

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}
