package plan

import (
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Stage is a set of changes of MachineConfigPools and Nodes. A stage is settled when there is nothing left to change and the cache shows all writes;
// the next stage starts after that.
type Stage struct {
	MCPs  []MCPChange
	Nodes []NodeChange
	// Condition becomes True when the stage is settled, and False when a Node cannot be changed; empty for none.
	Condition string
}

// MCPChange is a MachineConfigPool and what it is to be.
type MCPChange struct {
	MCP  *mcfgv1.MachineConfigPool
	Want MCPState
	// Other is the reservation of another run: the change is made only if that run does not exist any more.
	Other *Reservation
	// Reverted says which change of another writer the change reverts; empty for none.
	Reverted string
}

// gateStages reserve and pause the targets, label the nodes, and have the selectors separate the waiting nodes from the released ones. Targets that
// the run does not need any more are restored first.
func (r *Run) gateStages() []Stage {
	stages := append(r.dropStages(), r.reserveStage())
	for _, mcp := range r.RequiredMCPs() {
		if reservation := r.Reservations[mcp.Name]; reservation == nil || reservation.UID != r.Config.UID {
			// What follows depends on the reservations.
			return stages
		}
	}
	return append(stages, r.labelStage(), r.selectTargetsStage(), r.selectCanaryStage())
}

// dropStages restore the targets that the run has reserved and does not need any more, and their nodes.
func (r *Run) dropStages() []Stage {
	mcps := slices.DeleteFunc(r.reserved(false), func(mcp *mcfgv1.MachineConfigPool) bool { return slices.Contains(r.Targets, mcp) })
	if len(mcps) == 0 {
		return nil
	}
	nodes := r.leftNodes()
	return []Stage{r.returnStage(nodes, mcps), r.restoreSelectorsStage(mcps), {Nodes: r.stripNodes(nodes)}, r.restoreStage(mcps)}
}

// restoreStages restore MachineConfigPools, Nodes and leases. In their order, no node is ever in two MachineConfigPools or in none.
func (r *Run) restoreStages() []Stage {
	canary, targets := r.reserved(true), r.reserved(false)
	var stages []Stage
	if len(canary) > 0 {
		stages = append(stages, r.returnStage(r.Labeled, targets))
	}
	last := Stage{Nodes: r.stripNodes(r.Labeled)}
	for _, node := range r.preparedNodes() {
		// They are known from their Jobs, not from the status: the process may have ended after it acquired a lease.
		last.Nodes = append(last.Nodes, NodeChange{Node: node, ReleaseLease: true})
	}
	return append(stages, r.restoreSelectorsStage(targets), r.restoreStage(canary), r.restoreStage(targets), last)
}

// reserveStage reserves the MachineConfigPools and pauses the targets.
func (r *Run) reserveStage() Stage {
	stage := Stage{Condition: ConditionPaused}
	for _, mcp := range r.RequiredMCPs() {
		change := MCPChange{MCP: mcp, Want: MCPStateOf(mcp)}
		reservation, canary := r.Reservations[mcp.Name], mcp == r.Canary
		own := reservation != nil && reservation.UID == r.Config.UID
		switch {
		case own:
			if !canary && !mcp.Spec.Paused {
				change.Reverted = fmt.Sprintf("another writer has unpaused MachineConfigPool %s; it is paused again", mcp.Name)
			}
		case reservation == nil:
			reservation = Reserve(mcp, keyOf(r.Config), r.Config.UID)
			reservation.Canary = canary
		case reservation.Canary != canary:
			// In the other run it has another role, so it is restored first. Until then, no later MachineConfigPool is reserved.
			change.Other, change.Want = reservation, reservation.Original(mcp)
			stage.MCPs = append(stage.MCPs, change)
			return stage
		default:
			// Only the other reservation knows what the MachineConfigPool was before.
			change.Other = reservation
			inherited := *reservation
			inherited.Run, inherited.UID = keyOf(r.Config), r.Config.UID
			reservation = &inherited
		}
		if !own {
			change.Want.Reservation = reservation.Text()
		}
		change.Want.Paused = change.Want.Paused || !canary
		stage.MCPs = append(stage.MCPs, change)
	}
	return stage
}

// labelStage labels the nodes of the targets and of the canary, and removes the labels from nodes that have left both.
func (r *Run) labelStage() Stage {
	var required []string
	for _, reservation := range r.Reservations {
		if reservation.UID == r.Config.UID {
			required = append(required, reservation.Keys...)
		}
	}
	stage := Stage{Condition: ConditionApplied}
	for _, node := range r.Nodes {
		if !node.Disputed {
			stage.Nodes = append(stage.Nodes, gateNode(node.Node, r.Config.UID, r.Keys, required, r.Desired))
		}
	}
	for _, node := range r.CanaryNodes {
		stage.Nodes = append(stage.Nodes, keepInCanary(node, r.Config.UID))
	}
	stage.Nodes = append(stage.Nodes, r.stripNodes(r.leftNodes())...)
	return stage
}

// joinStage labels the nodes that have joined a MachineConfigPool whose selector the run has changed, as that selector requires it.
func (r *Run) joinStage() (stage Stage) {
	if r.membership == nil {
		return stage
	}
	for _, node := range r.unlabeled {
		mcps := r.membership.MCPsOf(node)
		if len(mcps) != 1 {
			continue
		}
		reservation := r.Reservations[mcps[0]]
		switch {
		case reservation == nil || reservation.UID != r.Config.UID || len(reservation.Keys) == 0:
		case reservation.Canary:
			stage.Nodes = append(stage.Nodes, keepInCanary(node, r.Config.UID))
		default:
			stage.Nodes = append(stage.Nodes, gateNode(node, r.Config.UID, reservation.Keys, reservation.Keys, r.Desired))
		}
	}
	return stage
}

func (r *Run) selectTargetsStage() (stage Stage) {
	for _, mcp := range r.Targets {
		reservation := r.Reservations[mcp.Name].WithEdit(mcp.Spec.NodeSelector)
		stage.MCPs = append(stage.MCPs, MCPChange{MCP: mcp, Want: reservation.WithKeys(r.Keys).Gated()})
	}
	return stage
}

func (r *Run) selectCanaryStage() Stage {
	reservation := r.Reservations[r.Canary.Name]
	change := MCPChange{MCP: r.Canary, Want: reservation.WithKeys(r.Keys).Open(r.Canary)}
	if len(reservation.Keys) > 0 && !apiequality.Semantic.DeepEqual(r.Canary.Spec.NodeSelector, reservation.Open(r.Canary).NodeSelector) {
		change.Reverted = fmt.Sprintf("another writer has changed the selector of MachineConfigPool %s; it is reverted", r.Canary.Name)
	}
	return Stage{MCPs: []MCPChange{change}, Condition: ConditionMCPs}
}

// returnStage moves released nodes from the canary to their targets, which are paused. The nodes are known by their releases, whatever the targets of
// the run are now.
func (r *Run) returnStage(nodes []*corev1.Node, targets []*mcfgv1.MachineConfigPool) (stage Stage) {
	var keys []string
	for _, mcp := range targets {
		keys = append(keys, r.Reservations[mcp.Name].Keys...)
	}
	for _, node := range nodes {
		stage.Nodes = append(stage.Nodes, returnNode(node, r.Config.UID, keys))
	}
	return stage
}

// restoreSelectorsStage restores the selectors of targets, which stay as paused as they are.
func (r *Run) restoreSelectorsStage(mcps []*mcfgv1.MachineConfigPool) (stage Stage) {
	for _, mcp := range mcps {
		reservation := r.Reservations[mcp.Name].WithEdit(mcp.Spec.NodeSelector)
		want := MCPState{Paused: mcp.Spec.Paused, NodeSelector: reservation.NodeSelector, Reservation: reservation.Text()}
		stage.MCPs = append(stage.MCPs, MCPChange{MCP: mcp, Want: want})
	}
	return stage
}

func (r *Run) restoreStage(mcps []*mcfgv1.MachineConfigPool) (stage Stage) {
	for _, mcp := range mcps {
		stage.MCPs = append(stage.MCPs, MCPChange{MCP: mcp, Want: r.Reservations[mcp.Name].Original(mcp)})
	}
	return stage
}

func (r *Run) stripNodes(nodes []*corev1.Node) []NodeChange {
	changes := make([]NodeChange, len(nodes))
	for i, node := range nodes {
		changes[i] = stripNode(node, r.Config.UID)
	}
	return changes
}
