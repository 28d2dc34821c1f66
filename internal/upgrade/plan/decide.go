// Package plan decides what a gated upgrade needs next: which Jobs, which labels of Nodes, which selectors of MachineConfigPools, and what the
// status says.
//
// It is pure: objects and the time go in, decisions come out. docs/compatibility/upgrade-mutex.md lists what the
// openshift-node-upgrade-mutex-operator does differently.
package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// Action is what a reconciliation does with a run.
type Action string

// The actions.
const (
	// ActionNone: nothing. The run is a dry run, or has never changed anything and has no effect.
	ActionNone Action = "None"
	// ActionPause: the run renews its node leases, and otherwise stays as it is.
	ActionPause Action = "Pause"
	// ActionWait: the same, and nodes that join its MachineConfigPools are labeled: otherwise the machine-config-operator would upgrade them.
	ActionWait Action = "Wait"
	// ActionGate: MachineConfigPools are reserved, and nodes have their turn.
	ActionGate Action = "Gate"
	// ActionCleanUp: nodes with the desired version are cleaned up. This needs no MachineConfigPool.
	ActionCleanUp Action = "CleanUp"
	// ActionRestore: everything is restored.
	ActionRestore Action = "Restore"
)

// Plan is what a reconciliation does with a run.
type Plan struct {
	Action Action
	// Phase and Message are the run's when the action is complete. An empty phase is the phase that the run has.
	Phase   v1alpha1.Phase
	Message string
	// Stages are carried out in this order.
	Stages []Stage
	// Nodes is what the nodes need; nil if nothing was decided about them. Their steps are carried out when the stages are settled.
	Nodes *Decision
	// StopJobs reports whether running Jobs are deleted, RemoveFinalizer whether the finalizer is removed after everything is restored.
	StopJobs, RemoveFinalizer bool
	// Unrestorable is why nothing can be restored before a user acts; empty if it can.
	Unrestorable string
	// Conditions are the conditions that do not depend on what the action achieves.
	Conditions Conditions
	// checked reports whether the versions are known and were compared. inactive reports whether no node is in progress after the action.
	checked, inactive bool
}

// PausedMessage is the message of a paused run. Unlike a suspended run, it restores nothing.
const PausedMessage = "paused by the annotation " + paused.Annotation + ": nothing is changed until it is removed, even if the run is deleted, " +
	"suspended or aborted; the upgrades of released nodes continue"

// Decide decides what to do with a run.
func Decide(r *Run) *Plan {
	p := &Plan{Conditions: Conditions{}}
	spec, isPaused := &r.Config.Spec, paused.Is(r.Config.Annotations)
	switch {
	case r.Config.DeletionTimestamp != nil && (!isPaused || r.Refused != ""):
		p.restore(r, "", "")
		p.StopJobs, p.RemoveFinalizer = true, true
	case r.Refused != "":
		p.Conditions.Set(ConditionValidated, false, r.Refused)
		p.restore(r, v1alpha1.PhaseInvalid, r.Refused)
		p.StopJobs, p.RemoveFinalizer, p.inactive = true, true, true
		if !slices.Contains(r.Config.Finalizers, v1alpha1.Finalizer) {
			p.Action, p.StopJobs = ActionNone, false
		}
	case isPaused:
		p.Action, p.Message = ActionPause, PausedMessage
	case spec.Abort:
		p.restore(r, v1alpha1.PhaseAborted, "spec.abort is set")
		p.StopJobs, p.inactive = true, true
	case spec.Suspend:
		p.restore(r, v1alpha1.PhaseSuspended, "spec.suspend is set")
		p.inactive = true
	case len(r.Problems) > 0:
		problems := strings.Join(r.Problems, "; ")
		p.Conditions.Set(ConditionValidated, false, problems)
		p.waitForUser(r, problems)
	default:
		p.Conditions.Set(ConditionValidated, true, "")
		p.decideValid(r)
	}
	return p
}

// decideValid decides about a run without problems.
func (p *Plan) decideValid(r *Run) {
	if r.VersionProblem != "" {
		p.Conditions.Set(ConditionChecked, false, r.VersionProblem)
		if r.NeedsRestore() {
			// The desired version may be known again soon, and until then no node may be upgraded.
			p.waitForUser(r, r.VersionProblem)
			return
		}
		p.Conditions.Set(ConditionAvailable, false, r.VersionProblem)
		p.restore(r, v1alpha1.PhaseIdle, r.VersionProblem)
		p.inactive = true
		return
	}
	p.checked = true
	p.compareVersions(r)
	if _, all := r.UnknownVersions(); all {
		// Whether the nodes have to be gated is not known either.
		p.waitForUser(r, p.Conditions[ConditionChecked].message)
		return
	}
	decision := DecideNodes(r)
	p.Nodes = &decision
	switch p.Action = r.NodesAction(&decision); {
	case p.Action == ActionRestore:
		phase, message := r.donePhase(&decision)
		p.restore(r, phase, message)
	case r.Config.Spec.DryRun && !r.NeedsRestore():
		p.Action, p.Phase, p.Message = ActionNone, v1alpha1.PhaseDryRun, r.dryRunMessage(&decision)
	case p.Action == ActionCleanUp:
		p.Phase = v1alpha1.PhaseWaiting
	default:
		p.Phase, p.Message, p.Stages = v1alpha1.PhaseWaiting, "the MachineConfigPools are being prepared", r.gateStages()
	}
}

func (p *Plan) restore(r *Run, phase v1alpha1.Phase, message string) {
	p.Action, p.Phase, p.Message = ActionRestore, phase, message
	p.Stages, p.Unrestorable = r.restoreStages(), strings.Join(r.unrestorable(), "; ")
}

// waitForUser keeps everything as it is until a user has corrected what is wrong.
func (p *Plan) waitForUser(r *Run, message string) {
	p.Action, p.Phase, p.Message = ActionWait, v1alpha1.PhaseInvalid, message
	p.Stages = []Stage{r.joinStage()}
	p.inactive = !r.NeedsRestore() && r.jobsFinished()
}

// maxNames is the longest list of names in a message, in bytes.
const maxNames = 1024

// compareVersions determines the conditions about versions.
func (p *Plan) compareVersions(r *Run) {
	if unknown, _ := r.UnknownVersions(); len(unknown) > 0 {
		names := status.Shorten(strings.Join(unknown, ", "), maxNames)
		p.Conditions.Set(ConditionChecked, false, fmt.Sprintf("the version of %d nodes is not known: %s", len(unknown), names))
	} else {
		p.Conditions.Set(ConditionChecked, true, "the desired version is "+r.Desired)
	}
	if r.Completed {
		p.Conditions.Set(ConditionReady, true, "the control plane has version "+r.Desired)
	} else {
		p.Conditions.Set(ConditionReady, false, "the control plane does not have version "+r.Desired+" yet")
	}
	if outdated := r.outdated(); outdated > 0 {
		p.Conditions.Set(ConditionAvailable, true, fmt.Sprintf("%d nodes of the targets have another version than %s", outdated, r.Desired))
	} else {
		p.Conditions.Set(ConditionAvailable, false, "all nodes of the targets have version "+r.Desired)
	}
}

// NodesAction returns what is done for the nodes of a valid run: ActionGate, ActionCleanUp, or ActionRestore if nothing else is left to do. A run
// that has reserved nothing reserves nothing for nodes that it would leave out, or to wait for a clean-up Job that has failed.
func (r *Run) NodesAction(d *Decision) Action {
	idle := !r.NeedsRestore() && r.outdated() == d.LeftOut && !slices.ContainsFunc(d.Steps, func(step Step) bool {
		return step.Status.Phase != v1alpha1.NodeCleaningUp && inProgress(step.Status.Phase)
	})
	switch {
	case idle && (len(d.Current) > 0 || d.Phase == v1alpha1.PhaseStopped):
		return ActionCleanUp
	case idle || d.Phase == v1alpha1.PhaseDone:
		return ActionRestore
	}
	return ActionGate
}

// donePhase returns the phase and message of a run that has nothing left to do: a run that has started is done, others are idle.
func (r *Run) donePhase(d *Decision) (phase v1alpha1.Phase, message string) {
	phase, message = v1alpha1.PhaseIdle, "all nodes of the targets have version "+r.Desired
	if len(r.Nodes) == 0 {
		message = "the MachineConfigPools of the targets have no nodes"
	}
	switch r.Config.Status.Phase {
	case v1alpha1.PhaseRestoring, v1alpha1.PhaseRunning, v1alpha1.PhaseStopped, v1alpha1.PhaseDone:
		phase = v1alpha1.PhaseDone
	}
	if r.NeedsRestore() {
		phase = v1alpha1.PhaseDone
	}
	if phase == v1alpha1.PhaseDone && d.Failed > 0 {
		message = fmt.Sprintf("%d nodes were left out because a Job has failed; the others have version %s", d.Failed, r.Desired)
	}
	return phase, message
}

// dryRunMessage says what the run would do.
func (r *Run) dryRunMessage(d *Decision) string {
	after := 0
	for i := range r.Rules {
		if r.Rules[i].After != nil {
			after++
		}
	}
	var targets []string
	for _, mcp := range r.Targets {
		targets = append(targets, mcp.Name)
	}
	const text = "dry run: %d of %d nodes would be upgraded, each after %d Jobs and before %d; the MachineConfigPools %s would be paused"
	return fmt.Sprintf(text, len(d.Steps)-d.Done, len(d.Steps), len(r.Rules), after, strings.Join(targets, ", "))
}
