package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Reason says in one word why a pod is still on the node. The words are labels of a metric.
type Reason string

// The reasons.
const (
	// Evicting: it is being asked to leave, and nothing speaks against it.
	Evicting Reason = "Evicting"
	// Terminating: it is ending, within its grace period.
	Terminating Reason = "Terminating"
	// Overdue: its grace period is over, and the kubelet has not reported its end.
	Overdue Reason = "Overdue"
	// Finalizer: it has ended, and a finalizer keeps it.
	Finalizer Reason = "Finalizer"
	// Budget: its PodDisruptionBudget allows no disruption now.
	Budget Reason = "Budget"
	// BudgetNever: its PodDisruptionBudget can never allow one as it is.
	BudgetNever Reason = "BudgetNever"
	// TwoBudgets: several PodDisruptionBudgets select it.
	TwoBudgets Reason = "SeveralBudgets"
	// Webhook: an admission webhook refuses.
	Webhook Reason = "Webhook"
	// NotAllowed: Drover may not evict it, or the API server refuses for good.
	NotAllowed Reason = "Forbidden"
	// EndOfNamespace: its namespace is being deleted.
	EndOfNamespace Reason = "NamespaceTerminating"
	// Failing: the API server is busy, or the request fails.
	Failing Reason = "Error"
	// Turn: pods of a lower order leave first.
	Turn Reason = "Turn"
	// Completion: it is not evicted but waited for.
	Completion Reason = "Completion"
	// DoNotDisrupt: an annotation protects it.
	DoNotDisrupt Reason = "DoNotDisrupt"
)

// Reasons lists all reasons, the ones that need a person first.
var Reasons = []Reason{
	BudgetNever, TwoBudgets, NotAllowed, Finalizer, Overdue, Budget, Webhook, DoNotDisrupt, Completion, Failing, EndOfNamespace,
	Terminating, Evicting, Turn,
}

// Blocks reports whether a pod that is there for this reason does not leave by itself soon: somebody has to do something about it, or to wait
// long.
func (r Reason) Blocks() bool {
	switch r {
	case BudgetNever, TwoBudgets, NotAllowed, Finalizer, Overdue, Budget, Webhook, DoNotDisrupt:
		return true
	}
	return false
}

// Exempt says why a pod is left alone.
type Exempt string

// The exemptions.
const (
	// OfDaemonSet: its DaemonSet would put it back.
	OfDaemonSet Exempt = "DaemonSet"
	// Static: the kubelet runs it from a file.
	Static Exempt = "static"
	// Skipped: a rule or label says so.
	Skipped Exempt = "skipped"
	// Finished: it was waited for, and has finished.
	Finished Exempt = "finished"
	// Lost: the node is unreachable and cannot end it.
	Lost Exempt = "on an unreachable node"
)

var exemptions = []Exempt{OfDaemonSet, Static, Skipped, Finished, Lost}

// Left is a pod that is still on the node and has to leave.
type Left struct {
	Namespace, Name string
	UID             types.UID
	Reason          Reason
	// Detail says more, the same for all pods with the same trouble; empty when the reason says all.
	Detail string
	// Since and Until bound a termination or a wait; zero for unknown.
	Since, Until time.Time
}

// Report says how far a drain is, and why not further.
type Report struct {
	// Left are the pods that have still to leave, sorted by namespace and name.
	Left []Left
	// Alone counts the pods that are left alone.
	Alone map[Exempt]int
	// Total is the number of all pods on the node.
	Total int
	// Late tells that the deadline is over.
	Late bool
	// NotBefore is when the node may be called drained at the earliest; zero when that is over.
	NotBefore time.Time
	// Volumes are the volumes that are still attached, sorted, when they are waited for and no pod is left.
	Volumes []string
	// Wake is when to look again if nothing happens until then; zero for no need.
	Wake time.Time
	// OutOfService tells that the node is to get the taint node.kubernetes.io/out-of-service.
	OutOfService bool
}

// Done tells that the node is drained.
func (r *Report) Done() bool { return len(r.Left) == 0 && r.NotBefore.IsZero() && len(r.Volumes) == 0 }

// Blocked reports whether a pod that is left does not leave by itself soon.
func (r *Report) Blocked() bool {
	return slices.ContainsFunc(r.Left, func(pod Left) bool { return pod.Reason.Blocks() })
}

// wake notes a time to look again.
func (r *Report) wake(at time.Time) {
	if r.Wake.IsZero() || at.Before(r.Wake) {
		r.Wake = at
	}
}

// Bounds of the text: it is read by people, in one line of kubectl.
const (
	maxGroups   = 5
	maxNames    = 3
	maxDetail   = 300
	clockLayout = "15:04:05Z"
)

// Text says for people what the drain waits for, the worst first. Equal situations have equal texts: no running times are in it.
func (r *Report) Text() string {
	switch {
	case len(r.Left) > 0:
		return r.leftText()
	case len(r.Volumes) > 0:
		return fmt.Sprintf("%d volumes are still attached: %s", len(r.Volumes), few(r.Volumes))
	case !r.NotBefore.IsZero():
		return "all pods have left; pods that were on their way are awaited until " + r.NotBefore.UTC().Format(clockLayout)
	}
	return "all pods have left" + r.aloneText()
}

func (r *Report) aloneText() string {
	var parts []string
	for _, exempt := range exemptions {
		if n := r.Alone[exempt]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, exempt))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (left alone: " + strings.Join(parts, ", ") + ")"
}

// Group is the pods that are there for the same reason.
type Group struct {
	Reason Reason
	Detail string
	// Pods are their names with namespaces, sorted.
	Pods []string
	// Since is the earliest of theirs, Until the latest; zero for unknown.
	Since, Until time.Time
}

// Groups puts together what is left for the same reason, the worst first.
func (r *Report) Groups() []Group {
	byKey := map[[2]string]*Group{}
	var groups []*Group
	for _, pod := range r.Left {
		key := [2]string{string(pod.Reason), pod.Detail}
		group := byKey[key]
		if group == nil {
			group = &Group{Reason: pod.Reason, Detail: pod.Detail}
			byKey[key], groups = group, append(groups, group)
		}
		group.Pods = append(group.Pods, pod.Namespace+"/"+pod.Name)
		if !pod.Since.IsZero() && (group.Since.IsZero() || pod.Since.Before(group.Since)) {
			group.Since = pod.Since
		}
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
	return fmt.Sprintf("%s left: %s", pods(len(r.Left)), strings.Join(parts, "; "))
}

// phrases says of pods why they are there.
var phrases = map[Reason]string{
	Evicting: "being evicted", Terminating: "terminating", Overdue: "past their grace period and not ended by the kubelet",
	Finalizer: "ended and kept by a finalizer", Budget: "blocked", BudgetNever: "blocked for good", TwoBudgets: "blocked",
	Webhook: "refused by a webhook", NotAllowed: "refused", EndOfNamespace: "ending with their namespace", Failing: "not evicted yet",
	Turn: "waiting for their turn", Completion: "to finish by themselves", DoNotDisrupt: "protected by " + AnnotationKarpenter,
}

func (g *Group) text() string {
	text := fmt.Sprintf("%d %s", len(g.Pods), phrases[g.Reason])
	switch {
	case !g.Since.IsZero() && !g.Until.IsZero():
		text += fmt.Sprintf(" since %s until %s", g.Since.UTC().Format(clockLayout), g.Until.UTC().Format(clockLayout))
	case !g.Until.IsZero():
		text += " until " + g.Until.UTC().Format(clockLayout)
	}
	if g.Detail != "" {
		text += " (" + shorten(g.Detail) + ")"
	}
	return text + ": " + few(g.Pods)
}

// few names some of many.
func few(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// shorten bounds somebody else's text, at a boundary of characters.
func shorten(text string) string {
	if len(text) <= maxDetail {
		return text
	}
	return strings.ToValidUTF8(text[:maxDetail], "") + "..."
}
