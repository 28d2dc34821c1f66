package view

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// maxGuardNames bounds each list of names of a NodeGuard.
const maxGuardNames = 10

// NodeGuard is what the guard of taints with the effect NoExecute would do on a Node. The lists have at most ten entries each.
type NodeGuard struct {
	Node   string   `json:"node"`
	Taints []string `json:"taints"`
	// AtOnce reports that the taints are set without a guard: Kubernetes deletes the Pods, whatever their PodDisruptionBudgets allow.
	AtOnce bool `json:"atOnce,omitempty"`
	// Held is why the taints would be held back, and no Pod evicted; empty if they would be set.
	Held string `json:"held,omitempty"`
	// Pods is how many Pods would have to leave before, and Leaving has them by reason: Evicting for those that could leave now. Of a Node that gets
	// the taints at once, Deleted has their names.
	Pods    int            `json:"pods"`
	Leaving []LeavingGroup `json:"leaving,omitempty"`
	Deleted []string       `json:"deleted,omitempty"`
	// Budgets are the PodDisruptionBudgets of these Pods.
	Budgets []Budget `json:"budgets,omitempty"`
	// Lost are the names of Pods of DaemonSets that do not tolerate the taints: Kubernetes deletes them, and they do not return. LostPods is how many
	// there are.
	LostPods int      `json:"lostPods"`
	Lost     []string `json:"lost,omitempty"`
}

// NoExecute counts the Pods of all Nodes that would get taints with the effect NoExecute.
type NoExecute struct {
	// AtOnce reports that Kubernetes deletes the Pods at once, because spec.rollout.noExecute.policy is Allow.
	AtOnce bool `json:"atOnce,omitempty"`
	// Timeout is after which time Kubernetes deletes the Pods that have not left a Node, because onTimeout is Proceed; empty for never.
	Timeout string `json:"timeout,omitempty"`
	// Pods are on the Nodes whose taints are not held back, without those of DaemonSets. Blocked are those of them that could not leave now.
	Pods    int `json:"pods"`
	Blocked int `json:"blocked"`
	// LostPods are the Pods of DaemonSets on these Nodes.
	LostPods int `json:"lostPods"`
}

// LeavingGroup is Pods that have to leave, and are on the Node for the same reason.
type LeavingGroup struct {
	Reason drain.Reason `json:"reason"`
	Detail string       `json:"detail,omitempty"`
	// Count is how many there are; Pods are the names of the first.
	Count int      `json:"count"`
	Pods  []string `json:"pods"`
}

// GuardedNode is a Node that lacks taints with the effect NoExecute.
type GuardedNode struct {
	Node *corev1.Node
	// taints are IDs, and wave is the number of the Node's wave. atOnce reports that they are not guarded.
	taints []string
	wave   int
	atOnce bool
}

// GuardObjects are what the guard decides on.
type GuardObjects struct {
	// Pods are those of each Node.
	Pods       map[string][]*corev1.Pod
	Budgets    []*policyv1.PodDisruptionBudget
	DaemonSets map[types.NamespacedName]bool
}

// guardedNodes returns the Nodes that are to be written and lack taints with the effect NoExecute, in the order of the waves.
func guardedNodes(in *GroupInput, waves [][]rollout.Node) (guarded []GuardedNode) {
	byName := make(map[string]*corev1.Node, len(in.Nodes))
	for i := range in.Nodes {
		byName[in.Nodes[i].Node.Name] = in.Nodes[i].Node
	}
	for number, wave := range waves {
		for i := range wave {
			metadata := &wave[i].Metadata
			next := GuardedNode{Node: byName[wave[i].Name], taints: metadata.Guarded, wave: number}
			if allowsNoExecute(in.Group.NodeGroup) {
				next.taints, next.atOnce = noExecuteOf(&metadata.Change), true
			}
			if metadata.Change.Write && len(next.taints) > 0 {
				guarded = append(guarded, next)
			}
		}
	}
	return guarded
}

// allowsNoExecute reports whether a group has Kubernetes delete the Pods that do not tolerate its taints.
func allowsNoExecute(group *v1alpha1.NodeGroup) bool {
	settings := plan.NoExecuteOf(group)
	return settings.Policy == v1alpha1.NoExecuteAllow
}

// noExecuteOf returns the IDs of the taints with the effect NoExecute that a change sets.
func noExecuteOf(change *plan.Change) []string {
	return slices.DeleteFunc(ownership.KeysOf(change.Results[ownership.Taint].Set).Sorted(), func(id string) bool {
		_, effect := ownership.SplitTaintID(id)
		return effect != corev1.TaintEffectNoExecute
	})
}

// AddGuards adds what the guard would do on each Node, as the operator decides it.
func (p *NodeGroupPlan) AddGuards(group *members.Group, guarded []GuardedNode, objects *GuardObjects, now time.Time) {
	settings, counted := plan.NoExecuteOf(group.NodeGroup), map[int]int{}
	for _, node := range guarded {
		d := &Drain{Node: node.Node, Pods: objects.Pods[node.Node.Name], Budgets: objects.Budgets, DaemonSets: objects.DaemonSets}
		report := d.decide(plan.GuardOptions(&settings, group.Declaration.GuardedTaints(node.taints)), now)
		if len(report.Remaining)+len(report.Lost) == 0 {
			continue
		}
		if node.atOnce {
			p.addGuard(d.guardAtOnce(node.taints, &report), &report)
			continue
		}
		held := plan.HeldBack(&settings, &report, func(pods, limit int) int {
			all := counted[node.wave] + pods
			if all <= limit {
				counted[node.wave] = all
			}
			return all
		})
		p.addGuard(d.guard(node.taints, &report, held), &report)
	}
	if p.NoExecute != nil && settings.OnTimeout == v1alpha1.TimeoutProceed && !p.NoExecute.AtOnce {
		p.NoExecute.Timeout = plan.GuardTimeout(&settings).String()
	}
}

// addGuard adds what happens on a Node, and counts its Pods.
func (p *NodeGroupPlan) addGuard(guard NodeGuard, report *drain.Report) {
	p.Guards = append(p.Guards, guard)
	if p.NoExecute == nil {
		p.NoExecute = &NoExecute{AtOnce: guard.AtOnce}
	}
	if guard.Held != "" {
		return
	}
	p.NoExecute.Pods, p.NoExecute.LostPods = p.NoExecute.Pods+guard.Pods, p.NoExecute.LostPods+guard.LostPods
	for i := range report.Remaining {
		p.NoExecute.Blocked += one(!guard.AtOnce && report.Remaining[i].Reason != drain.Evicting)
	}
}

// guardAtOnce returns what happens on a Node that gets its taints at once.
func (d *Drain) guardAtOnce(taints []string, report *drain.Report) NodeGuard {
	names := make([]string, len(report.Remaining))
	for i := range report.Remaining {
		names[i] = report.Remaining[i].Namespace + "/" + report.Remaining[i].Name
	}
	return NodeGuard{
		Node: d.Node.Name, Taints: taints, AtOnce: true, Pods: len(names), Deleted: firstNames(names),
		LostPods: len(report.Lost), Lost: firstNames(report.Lost),
	}
}

// guard returns what the guard would do on a Node.
func (d *Drain) guard(taints []string, report *drain.Report, held string) NodeGuard {
	budgets := d.budgets(report)
	out := NodeGuard{
		Node: d.Node.Name, Taints: taints, Held: held, Pods: len(report.Remaining), Budgets: budgets[:min(len(budgets), maxGuardNames)],
		LostPods: len(report.Lost), Lost: firstNames(report.Lost),
	}
	groups := report.Groups()
	for _, group := range groups[:min(len(groups), maxGuardNames)] {
		out.Leaving = append(out.Leaving, LeavingGroup{group.Reason, group.Detail, len(group.Pods), firstNames(group.Pods)})
	}
	return out
}

func firstNames(names []string) []string {
	return slices.Clone(names[:min(len(names), maxGuardNames)])
}
