package view

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodegroup/members"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
)

// maxGuardNames bounds each list of names of a NodeGuard.
const maxGuardNames = 10

// NodeGuard is what the guard of taints with the effect NoExecute would do on a Node. The lists have at most ten entries each.
type NodeGuard struct {
	Node   string   `json:"node"`
	Taints []string `json:"taints"`
	// Held is why the taints would be held back, and no Pod evicted; empty if they would be set.
	Held string `json:"held,omitempty"`
	// Pods is how many Pods would have to leave before, and Leaving has them by reason: Evicting for those that could leave now.
	Pods    int            `json:"pods"`
	Leaving []LeavingGroup `json:"leaving,omitempty"`
	// Budgets are the PodDisruptionBudgets of these Pods.
	Budgets []Budget `json:"budgets,omitempty"`
	// Lost are the names of Pods of DaemonSets that do not tolerate the taints: Kubernetes deletes them, and they do not return. LostPods is how many
	// there are.
	LostPods int      `json:"lostPods"`
	Lost     []string `json:"lost,omitempty"`
}

// LeavingGroup is Pods that have to leave, and are on the Node for the same reason.
type LeavingGroup struct {
	Reason drain.Reason `json:"reason"`
	Detail string       `json:"detail,omitempty"`
	// Count is how many there are; Pods are the names of the first.
	Count int      `json:"count"`
	Pods  []string `json:"pods"`
}

// GuardedNode is a Node that lacks guarded taints.
type GuardedNode struct {
	Node *corev1.Node
	// taints are IDs, and wave is the number of the Node's wave.
	taints []string
	wave   int
}

// GuardObjects are what the guard decides on.
type GuardObjects struct {
	// Pods are those of each Node.
	Pods       map[string][]*corev1.Pod
	Budgets    []*policyv1.PodDisruptionBudget
	DaemonSets map[types.NamespacedName]bool
}

// guardedNodes returns the Nodes that are to be written and lack guarded taints, in the order of the waves.
func guardedNodes(in *GroupInput, waves [][]groupplan.Node) (guarded []GuardedNode) {
	byName := make(map[string]*corev1.Node, len(in.Nodes))
	for i := range in.Nodes {
		byName[in.Nodes[i].Node.Name] = in.Nodes[i].Node
	}
	for number, wave := range waves {
		for i := range wave {
			if metadata := &wave[i].Metadata; metadata.Change.Write && len(metadata.Guarded) > 0 {
				guarded = append(guarded, GuardedNode{Node: byName[wave[i].Name], taints: metadata.Guarded, wave: number})
			}
		}
	}
	return guarded
}

// AddGuards adds what the guard would do on each Node, as the operator decides it.
func (p *NodeGroupPlan) AddGuards(group *members.Group, guarded []GuardedNode, objects *GuardObjects, now time.Time) {
	settings, counted := groupplan.NoExecute(group.NodeGroup), map[int]int{}
	for _, node := range guarded {
		d := &Drain{Node: node.Node, Pods: objects.Pods[node.Node.Name], Budgets: objects.Budgets, DaemonSets: objects.DaemonSets}
		report := d.decide(groupplan.GuardOptions(&settings, group.Declaration.GuardedTaints(node.taints)), now)
		if len(report.Remaining)+len(report.Lost) == 0 {
			continue
		}
		held := groupplan.GuardHeld(&settings, &report, func(pods, limit int) int {
			all := counted[node.wave] + pods
			if all <= limit {
				counted[node.wave] = all
			}
			return all
		})
		p.Guards = append(p.Guards, d.guard(node.taints, &report, held))
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
