package view

import (
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// UpgradePlan is what `upgrade plan` shows.
type UpgradePlan struct {
	TypeMeta
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version is the target version. Waits says why no node would start now. Note says what the run would do instead of upgrading nodes;
	// then it changes MachineConfigPools only to restore them.
	Version string `json:"version,omitempty"`
	Waits   string `json:"waits,omitempty"`
	Note    string `json:"note,omitempty"`
	// Faults are what is wrong with the run; with any, it would do nothing.
	Faults []string `json:"faults,omitempty"`
	// MCPs are the MachineConfigPools that the run would change.
	MCPs []UpgradeMCP `json:"machineConfigPools,omitempty"`
	// Nodes are those of the targets, in their order.
	Nodes []UpgradeNode `json:"nodes,omitempty"`
}

// UpgradeMCP is what would change in a MachineConfigPool.
type UpgradeMCP struct {
	Name   string `json:"name"`
	Canary bool   `json:"canary,omitempty"`
	// ClaimedBy is the other run that has reserved it.
	ClaimedBy string `json:"claimedBy,omitempty"`
	// Paused and During are spec.paused and spec.nodeSelector during the run, WasPaused and Before the values before it.
	Paused    bool                  `json:"paused"`
	WasPaused bool                  `json:"wasPaused"`
	Before    *metav1.LabelSelector `json:"before"`
	During    *metav1.LabelSelector `json:"during"`
}

// UpgradeNode is what the run would do for a node.
type UpgradeNode struct {
	Name    string          `json:"name"`
	MCP     string          `json:"machineConfigPool"`
	Version string          `json:"version,omitempty"`
	Phase   mutex.NodePhase `json:"phase"`
	Message string          `json:"message,omitempty"`
	// Before and After are the Jobs still to run before and after the upgrade of the node, as namespace/name.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// NewUpgradePlan returns the document of `upgrade plan`.
func NewUpgradePlan(r *plan.Run) *UpgradePlan {
	document := &UpgradePlan{
		TypeMeta: TypeMeta{APIVersion, "UpgradePlan"}, Namespace: r.Config.Namespace, Name: r.Config.Name, Version: r.Desired, Waits: upgradeWaits(r),
		Faults: r.Problems,
	}
	if r.VersionProblem != "" {
		document.Faults = append(document.Faults, r.VersionProblem)
	}
	if unknown, all := r.UnknownVersions(); all {
		document.Faults = append(document.Faults, fmt.Sprintf("the version of %d nodes is unknown", len(unknown)))
	}
	if len(document.Faults) > 0 {
		return document
	}
	r.Wait = document.Waits
	decision := plan.DecideNodes(r)
	action := r.NodesAction(&decision)
	document.Note = upgradeNote(r, action, &decision)
	if action == plan.ActionGate {
		for _, mcp := range r.RequiredMCPs() {
			document.MCPs = append(document.MCPs, upgradeMCP(r, mcp))
		}
	}
	for _, step := range decision.Steps {
		document.Nodes = append(document.Nodes, upgradeNode(r, &step))
	}
	return document
}

// upgradeNote says what the run would do instead of upgrading nodes; empty if it would upgrade nodes.
func upgradeNote(r *plan.Run, action plan.Action, decision *plan.Decision) string {
	note := ""
	switch {
	case action == plan.ActionGate:
		return ""
	case action == plan.ActionCleanUp:
		return "clean-up Jobs only, for which no MachineConfigPool changes"
	case len(r.Nodes) == 0:
		note = "nothing to do: the MachineConfigPools of the targets have no nodes"
	case decision.LeftOut > 0:
		note = fmt.Sprintf("nothing to do: %d nodes are skipped because a Job has failed; the others have the version", decision.LeftOut)
	default:
		note = "nothing to do: all nodes of the targets have the version"
	}
	if r.NeedsRestore() {
		note += "; the run restores MachineConfigPools and nodes"
	}
	return note
}

// upgradeWaits says why no node would start now; empty if one would.
func upgradeWaits(r *plan.Run) string {
	var why []string
	switch spec := &r.Config.Spec; {
	case spec.Abort:
		why = append(why, "spec.abort is set, so nothing changes until it is false")
	case spec.Suspend:
		why = append(why, "spec.suspend is set, so nothing changes until it is false")
	case spec.DryRun && r.NeedsRestore():
		why = append(why, "spec.dryRun is set")
	case spec.DryRun:
		why = append(why, "spec.dryRun is set, so nothing changes until it is false")
	}
	if r.Wait != "" {
		why = append(why, r.Wait)
	}
	return strings.Join(why, "; ")
}

func upgradeMCP(r *plan.Run, mcp *mcfgv1.MachineConfigPool) UpgradeMCP {
	reservation := r.Reservations[mcp.Name]
	out := UpgradeMCP{Name: mcp.Name, Canary: mcp == r.Canary}
	if reservation != nil && reservation.UID != r.Config.UID {
		out.ClaimedBy = reservation.Run.String()
	}
	if reservation == nil {
		reservation = plan.Reserve(mcp, types.NamespacedName{Namespace: r.Config.Namespace, Name: r.Config.Name}, r.Config.UID)
		reservation.Canary = out.Canary
	}
	before, reservation := reservation.Original(mcp), reservation.WithKeys(r.Keys)
	during := reservation.Gated()
	if out.Canary {
		during = reservation.Open(mcp)
	}
	out.Paused, out.WasPaused, out.Before, out.During = during.Paused, before.Paused, before.NodeSelector, during.NodeSelector
	return out
}

// upgradeNode lists the Jobs of a node that have not succeeded yet.
func upgradeNode(r *plan.Run, step *plan.Step) UpgradeNode {
	out := UpgradeNode{Name: step.Status.Name, Phase: step.Status.Phase, Message: step.Status.Message}
	out.MCP, out.Version = step.Node.MCP, step.Node.Version
	if out.Phase != mutex.NodeDone {
		out.Before = r.RemainingJobs(step.Node, plan.BeforeUpgrade)
		out.After = r.RemainingJobs(step.Node, plan.AfterUpgrade)
	}
	if step.Status.Released != nil {
		out.Before = nil
	}
	return out
}
