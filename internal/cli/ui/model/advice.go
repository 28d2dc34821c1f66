package model

import (
	"slices"
	"sync"
)

// The resources that the page reads, as resource.group.
const (
	ResourceNodes             = "nodes"
	ResourceGroups            = "nodegroups.drover.dev"
	ResourceSets              = "machinesets.machine.openshift.io"
	ResourceMachines          = "machines.machine.openshift.io"
	ResourceChecks            = "machinehealthchecks.machine.openshift.io"
	ResourceAutoscalers       = "machineautoscalers.autoscaling.openshift.io"
	ResourceMaintenances      = "nodemaintenances.nodemaintenance.medik8s.io"
	ResourceOlderMaintenances = "nodemaintenances.nodemaintenance.kubevirt.io"
	ResourceRuns              = "mutexrunconfigs.openshift-optional.skrzypek.io"
	ResourceLeases            = "leases.coordination.k8s.io"
)

// kinds are the capability and the resource of each kind that can wait.
var kinds = map[string]struct{ capability, resource string }{
	kindNodeGroup:   {"node-groups", ResourceGroups},
	kindMachineSet:  {"machines", ResourceSets},
	kindMachine:     {"machines", ResourceMachines},
	kindHealthCheck: {"machines", ResourceChecks},
	kindAutoscaler:  {"autoscaling", ResourceAutoscalers},
	kindMaintenance: {"maintenance", ResourceMaintenances},
	kindRun:         {"upgrade", ResourceRuns},
}

// documentation is where the pages of docs/ are.
const documentation = "https://github.com/drover-io/drover/blob/main/docs/"

// advice says how urgent a reason is, and what to do.
type advice struct {
	urgency         Urgency
	action, runbook string
}

// rule is the advice for some reasons of a kind.
type rule struct {
	kind    string
	reasons []string
	urgency Urgency
	// runbook is a page of docs/runbooks; empty for docs/conditions.md.
	runbook string
	action  string
}

func rules() []rule {
	return slices.Concat(groupRules, machineRules, healthRules, maintenanceRules, upgradeRules)
}

var groupRules = []rule{
	{kindNodeGroup, []string{"NodesNotReady"}, Stopped, "DroverNodeGroupStopped",
		"Find out whether the change makes nodes NotReady. Undo it with kubectl drover rollout undo, or bring the nodes back and resume the roll-out."},
	{kindNodeGroup, []string{"PodsPending"}, Stopped, "DroverNodeGroupStopped",
		"The Pods fit no node with the change: undo it, or add nodes, then resume."},
	{kindNodeGroup, []string{"NewMachineFailed"}, Stopped, "DroverNodeGroupStopped",
		"Correct the template of the MachineSet; that continues the replacement."},
	{kindNodeGroup, []string{"NeedsConfirm"}, Stopped, "DroverNodeGroupStopped", "Undo the change, or confirm that the labels go."},
	{kindNodeGroup, []string{"Conflicts", "Contended"}, Stopped, "DroverNodeGroupConflict",
		"Find the other writer on the page of a node, and stop one of the two."},
	{kindNodeGroup, []string{"RefusedKeys", "UntrustedSelector", "NoExecuteHeld", "MachineSetDeclares"}, Stopped, "DroverNodeGroupConflict",
		"Correct what the NodeGroup declares; the message names the keys."},
	{kindNodeGroup, []string{"InvalidSelector", "InvalidWindow", "Overlapping", "SurgeUnavailable"}, Stopped, "DroverNodeGroupNotMoving",
		"Correct the spec of the NodeGroup, as the message says."},
	{kindNodeGroup, []string{"Denied"}, Stopped, "DroverMetadataDenied",
		"Read who denies the write, and allow it or change what is declared."},
	{kindNodeGroup, []string{"BudgetExceeded"}, Waiting, "DroverNodeGroupOverBudget",
		"Find out why so many nodes are unavailable; nothing more is disrupted until then."},
	{kindNodeGroup, []string{"BudgetExhausted", "CapabilityExhausted", "RemediationsLimited", "RemediationInterval", "TooManyReservations"}, Waiting,
		"DroverNodeGroupDisruptionsWaiting", "Wait for the disruptions in flight, or raise the limit that the message names."},
	{kindNodeGroup, []string{"WindowClosed", "Frozen"}, Waiting, "DroverNodeGroupDisruptionsWaiting",
		"Wait until the window opens, or change windows and freezes."},
	{kindNodeGroup, []string{"Pausing"}, Waiting, "DroverNodeGroupNotMoving", "Wait for the end of spec.rollout.pause."},
	{kindNodeGroup, []string{"Suspended"}, Suspended, "DroverNodeGroupHeld", "A user has stopped the group. Resume it to continue."},
	{kindNodeGroup, []string{"ReplacementPaused"}, Suspended, "DroverNodeGroupHeld", "Remove the annotation that the message names to continue."},
	{kindNodeGroup, []string{"DryRun"}, Suspended, "DroverNodeGroupHeld", "Nothing is written. Take spec.dryRun away to begin."},
}

var machineRules = []rule{
	{kindMachineSet, []string{"InvalidConfiguration", "CreateError", "DeleteError", "OwnerReferenceError"}, Stopped, "DroverMachineSetWritesFailing",
		"Correct what the message names; Drover tries again."},
	{kindMachineSet, []string{"ScalingUp", "ScalingDown", "MachinesNotAuthoritative"}, Waiting, "DroverMachineSetShort",
		"Look at the Machines of the MachineSet."},
	{kindMachineSet, []string{"PausedByAnnotation", "AuthoritativeAPINotMachineAPI"}, Suspended, "", "Resume the MachineSet to continue."},
	{kindMachineSet, []string{reasonConflict}, Stopped, "DroverMetadataConflict",
		"Find the other writer on the page of a node, and stop one of the two."},
	{kindMachineSet, []string{reasonRefused}, Stopped, "DroverMetadataRefused",
		"Take the keys out of the template; kubectl drover plan lists them."},
	{kindMachineSet, []string{reasonHeld}, Suspended, "DroverMetadataHeld", "Resume the MachineSet or the Machines to continue."},
	{kindMachineSet, []string{reasonPending}, Waiting, "DroverMetadataPending", "If the number does not fall, look at the runbook."},
	{kindMachine, []string{"Failed", "InstanceMissing"}, Stopped, "DroverMachineFailed",
		"Delete the Machine, so that its MachineSet creates another one."},
	{kindMachine, []string{"NodeLinkConflict", "NodeNotAdopted"}, Stopped, "DroverMachineWithoutNode",
		"Clear up which Machine the Node belongs to, as the message says."},
	{kindMachine, []string{"NoProvider", "InvalidConfiguration"}, Stopped, "DroverInstanceCreateFailing",
		"Correct spec.providerSpec, or enable the provider."},
	{kindMachine, []string{"RecordUnreadable", "Denied", "ControlPlaneQuorumUnknown"}, Stopped, "DroverMachineStuckDeleting",
		"Correct what the message names; Drover tries again."},
	{kindMachine, []string{"HookPresent"}, Waiting, "DroverMachineStuckDeleting", "The owner of the hook has to remove it."},
	{kindMachine, []string{"Draining", "DrainTimeout"}, Waiting, "DroverDrainNotMoving", "The message names the Pods that are left, and why."},
	{kindMachine, []string{"LeaseHeldByOther"}, Waiting, "DroverNodeLeaseHeld", "Wait until the other holder releases the node."},
	{kindMachine, []string{"ControlPlaneQuorum"}, Waiting, "DroverMachineStuckDeleting", "Bring the other nodes of the control plane back."},
	{kindMachine, []string{"Provisioning", "ErrorCheckingProvider"}, Waiting, "DroverInstanceCreateFailing",
		"The message has the provider's last error."},
	{kindMachine, []string{"AwaitingNode", "NodeStarting", "NodeNotFound"}, Waiting, "DroverMachineWithoutNode",
		"Look at the console of the instance, and at pending CSRs."},
	{kindMachine, []string{"NodeNotReady"}, Waiting, "DroverMachineSetShort", "Look at the kubelet of the node."},
	{kindMachine, []string{"Deleting"}, Waiting, "DroverMachineStuckDeleting", "If the Machine stays, look at its finalizers."},
	{kindMachine, []string{"Paused"}, Suspended, "", "Resume the Machine to continue."},
}

var healthRules = []rule{
	{kindHealthCheck, []string{"TooManyUnhealthy"}, Stopped, "DroverHealthCheckShortCircuited",
		"Find out why so many Machines are unhealthy, or raise maxUnhealthy."},
	{kindHealthCheck, []string{"InvalidMaxUnhealthy", "InvalidRemediationLimits", "InvalidSelector", "RemediationTemplateRefused", "NoController",
		"Undecodable"}, Stopped, "DroverRemediationFailing", "Correct what the message names."},
	{kindHealthCheck, []string{"RemediationFailed", "ExternalRemediationTemplateNotFound", "ExternalRemediationRequestCreationFailed",
		"ControlPlaneQuorumUnknown"}, Stopped, "DroverRemediationFailing", "Correct what the message names; Drover tries again."},
	{kindHealthCheck, []string{"LeaseHeldByOther"}, Waiting, "DroverNodeLeaseHeld", "Wait until the other holder releases the node."},
	{kindHealthCheck, []string{"ControlPlaneQuorum", "BackingOff", "RemediationLimited", "WaitingForBudget", "LeftToOlder"}, Waiting,
		"DroverRemediationWaiting",
		"The message says what the remediation waits for."},
	{kindHealthCheck, []string{"PausedByAnnotation", "MachinePaused", "SkippedByAnnotation", "AuthoritativeAPINotMachineAPI"}, Suspended, "",
		"Remove the annotation to continue."},
	{kindAutoscaler, []string{"FailedValidation", "FailedGetTarget", "FailedSetOwner", "FailedUpdateTarget", "FailedFinalizeTarget"}, Stopped, "",
		"Correct the MachineAutoscaler, as the message says."},
	{kindAutoscaler, []string{"Paused"}, Suspended, "", "Resume the MachineAutoscaler to continue."},
}

var maintenanceRules = []rule{
	{kindMaintenance, []string{"Blocked"}, Stopped, "DroverDrainBlocked",
		"If a budget holds the Pods, ask their owner for another replica, or for a budget that lets one go. The page of the node has the numbers."},
	{kindMaintenance, []string{"PodsReturn"}, Stopped, "DroverDrainBlocked",
		"Scale the owner of the Pods down, or take the toleration or the node's name out of its Pod template."},
	{kindMaintenance, []string{"DeadlineExceeded", "RulesInvalid", "NodeNotFound", "AnotherNodeMaintenance", "RecordUnreadable", "UncordonedByOther",
		"ControlPlaneQuorumUnknown", "Denied", "Failed"}, Stopped, "DroverMaintenanceFailed", "Correct what the message names; Drover tries again."},
	{kindMaintenance, []string{"LeaseNamespaceMissing", "Lost"}, Stopped, "DroverNodeLeaseFailing",
		"Make sure that the lease can be written."},
	{kindMaintenance, []string{"HeldByOther"}, Waiting, "DroverNodeLeaseHeld", "Wait until the other holder releases the node."},
	{kindMaintenance, []string{"WaitingForBudget"}, Waiting, "DroverNodeGroupDisruptionsWaiting",
		"The message says which limit, and who has the places."},
	{kindMaintenance, []string{"ControlPlaneQuorum", "HeldForOtherWork"}, Waiting, "DroverDrainNotMoving",
		"The message says what has to end first."},
	{kindMaintenance, []string{"Draining", "VolumesAttached", "AwaitingLatePods", "NotStarted", "Running"}, Waiting, "DroverDrainNotMoving",
		"The drain continues. The page of the node has the Pods that are left."},
	{kindMaintenance, []string{"NotObserved"}, Waiting, "DroverAbsent", "Check that Drover runs, with the capability maintenance."},
	{kindMaintenance, []string{"Paused"}, Suspended, "", "A user has paused the maintenance. Remove the annotation drover.dev/paused to continue."},
	{kindMaintenance, []string{"DryRun"}, Suspended, "", "Nothing is drained. Take spec.drain.dryRun away to begin."},
}

var upgradeRules = []rule{
	{kindRun, []string{"Stopped"}, Stopped, "DroverUpgradeStopped", "Look at the Job that has failed, then resume the run."},
	{kindRun, []string{"Invalid"}, Stopped, "DroverUpgradeInvalid", "Correct the run, as the message says."},
	{kindRun, []string{"NodeFailed"}, Stopped, "DroverUpgradeNodesFailed", "Look at the Jobs of the node."},
	{kindRun, []string{"Waiting", "Claimed"}, Waiting, "DroverUpgradeWaiting", "The message says what the run waits for."},
	{kindRun, []string{"Suspended", "Aborted"}, Suspended, "", "A user has stopped the run. Resume it to continue."},
	{kindRun, []string{"DryRun"}, Suspended, "", "Nothing is upgraded. Take spec.dryRun away to begin."},
}

// reasonKey identifies a reason of a kind.
type reasonKey struct{ kind, reason string }

// advices are the rules by kind and reason.
var advices = sync.OnceValue(func() map[reasonKey]advice {
	out := map[reasonKey]advice{}
	for _, rule := range rules() {
		page := documentation + "conditions.md"
		if rule.runbook != "" {
			page = documentation + "runbooks/" + rule.runbook + ".md"
		}
		for _, reason := range rule.reasons {
			out[reasonKey{rule.kind, reason}] = advice{urgency: rule.urgency, action: rule.action, runbook: page}
		}
	}
	return out
})

// adviceOf returns the advice for a reason. A reason of another writer is not known: it waits, and docs/conditions.md lists the others.
func adviceOf(kind, reason string) advice {
	if found, known := advices()[reasonKey{kind, reason}]; known {
		return found
	}
	return advice{urgency: Waiting, runbook: documentation + "conditions.md"}
}
