package view

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// maxGuardEntries bounds each list of a NodeGuard.
const maxGuardEntries = 10

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

// guardedNodes returns the Nodes that are to be written and lack taints with the effect NoExecute, in the order of the waves.
func guardedNodes(in *GroupInput, waves [][]rollout.Node) (guarded []GuardedNode) {
	byName := make(map[string]*corev1.Node, len(in.Nodes))
	for i := range in.Nodes {
		byName[in.Nodes[i].Node.Name] = in.Nodes[i].Node
	}
	atOnce := plan.NoExecuteOf(in.Group.NodeGroup).Policy == v1alpha1.NoExecuteAllow
	for number, wave := range waves {
		for i := range wave {
			metadata := &wave[i].Metadata
			next := GuardedNode{Node: byName[wave[i].Name], taints: metadata.Guarded, wave: number, atOnce: atOnce}
			if atOnce {
				next.taints = noExecuteOf(&metadata.Change)
			}
			if metadata.Change.Write && len(next.taints) > 0 {
				guarded = append(guarded, next)
			}
		}
	}
	return guarded
}

// noExecuteOf returns the IDs of the taints with the effect NoExecute that a change sets.
func noExecuteOf(change *plan.Change) []string {
	return slices.DeleteFunc(ownership.KeysOf(change.Results[ownership.Taint].Set).Sorted(), func(id string) bool {
		_, effect := ownership.SplitTaintID(id)
		return effect != corev1.TaintEffectNoExecute
	})
}

// AddGuards adds what the guard would do on each Node, as the operator decides it. drainOf returns a Node with what decides about its drain.
func (p *NodeGroupPlan) AddGuards(drainOf func(*corev1.Node) *Drain, now time.Time) {
	group := p.Consequences.group
	settings, counted := plan.NoExecuteOf(group.NodeGroup), map[int]int{}
	for i := range p.Consequences.Guarded {
		node := &p.Consequences.Guarded[i]
		d, held := drainOf(node.Node), ""
		report := d.decide(plan.GuardOptions(&settings, group.Declaration.GuardedTaints(node.taints)), now)
		if len(report.Remaining)+len(report.Lost) == 0 {
			continue
		}
		if !node.atOnce {
			held = plan.HeldBack(&settings, &report, func(pods, limit int) int {
				all := counted[node.wave] + pods
				if all <= limit {
					counted[node.wave] = all
				}
				return all
			})
		}
		p.addGuard(d.guard(node, &report, held), &report)
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

// guard returns what the guard would do on a Node, or what happens there without it.
func (d *Drain) guard(node *GuardedNode, report *drain.Report, held string) NodeGuard {
	out := NodeGuard{
		Node: d.Node.Name, Taints: node.taints, AtOnce: node.atOnce, Held: held, Pods: len(report.Remaining),
		LostPods: len(report.Lost), Lost: first(report.Lost),
	}
	if node.atOnce {
		for _, pod := range first(report.Remaining) {
			out.Deleted = append(out.Deleted, pod.Namespace+"/"+pod.Name)
		}
		return out
	}
	out.Budgets = first(d.budgets(report))
	for _, group := range first(report.Groups()) {
		out.Leaving = append(out.Leaving, LeavingGroup{group.Reason, group.Detail, len(group.Pods), first(group.Pods)})
	}
	return out
}

// first bounds a list.
func first[T any](all []T) []T { return slices.Clone(all[:min(len(all), maxGuardEntries)]) }
