package plan

import (
	"slices"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/status"
)

// Reasons of the conditions of a NodeGroup.
const (
	ReasonSynced            = "Synced"
	ReasonNotSynced         = "NotSynced"
	ReasonNoNodes           = "NoNodes"
	ReasonInvalidSelector   = "InvalidSelector"
	ReasonInvalidWindow     = "InvalidWindow"
	ReasonUntrustedSelector = "UntrustedSelector"
	ReasonRefusedKeys       = "RefusedKeys"
	ReasonNoExecuteHeld     = "NoExecuteHeld"
	ReasonConflicts         = "Conflicts"
	ReasonContended         = "Contended"
	ReasonDenied            = "Denied"
	ReasonMachineDeclares   = "MachineSetDeclares"
	ReasonRollingOut        = "RollingOut"
	ReasonReplacing         = "Replacing"
	ReasonReleasing         = "Releasing"
	ReasonComplete          = "Complete"
	ReasonStopped           = "Stopped"
	ReasonPausing           = "Pausing"
	ReasonSuspended         = "Suspended"
	ReasonDryRun            = "DryRun"
	ReasonNotBlocked        = "NotBlocked"
	ReasonNeedsConfirm      = "NeedsConfirm"
	ReasonOverlapping       = "Overlapping"
	ReasonExclusive         = "Exclusive"
)

// ConditionDocs describes the reasons.
func ConditionDocs() []status.ConditionDoc {
	ready, progressing := v1alpha1.ConditionReady, v1alpha1.ConditionProgressing
	return status.ConditionsOn("NodeGroup", slices.Concat([]status.ConditionDoc{
		{Type: ready, Reason: ReasonSynced, When: "True: every Node of the group carries what it declares"},
		{Type: ready, Reason: ReasonNotSynced, When: "some Nodes do not carry it yet"},
		{Type: ready, Reason: ReasonNoNodes,
			When: "spec.nodes selects no Node: it may be misspelled, or the pool has scaled to zero; Nodes that join the group get what it declares"},
		{Type: ready, Reason: ReasonOverlapping, When: "each Node that spec.nodes selects belongs to an older group, so that the group has none"},
		{Type: ready, Reason: ReasonInvalidSelector, When: "a selector of spec.nodes is invalid, or it has machineSets and Drover reads no Machines; " +
			"the group has no Nodes"},
		{Type: ready, Reason: ReasonInvalidWindow,
			When: "a window or a freeze of spec.disruption cannot be read, such as one in an unknown time zone; no disruption begins until it is corrected"},
		{Type: ready, Reason: ReasonUntrustedSelector,
			When: "the group declares labels below node-restriction.kubernetes.io and selects Nodes by what their kubelets can change; these labels " +
				"are not written"},
		{Type: ready, Reason: ReasonRefusedKeys,
			When: "a declared key belongs to the system, is invalid, or is a label with which spec.nodes does not select Nodes; it is not written"},
		{Type: ready, Reason: ReasonNoExecuteHeld,
			When: "a taint with the effect NoExecute is held back on some Nodes; the message says which limit of spec.rollout.noExecute they exceed, " +
				"which Pod did not leave in time, or what Drover needs to evict Pods first"},
		{Type: ready, Reason: ReasonConflicts,
			When: "another writer has set a declared key on some Nodes; spec.metadata.conflictPolicy says what happens then"},
		{Type: ready, Reason: ReasonContended,
			When: "another writer keeps changing declared keys on some Nodes; Drover leaves these keys alone for a while, and the message names the Nodes"},
		{Type: ready, Reason: ReasonDenied,
			When: "some Nodes cannot be written: the API server denies it, or other writers keep changing them meanwhile; the message names them"},
		{Type: ready, Reason: ReasonMachineDeclares, When: "Machines or MachineSets declare keys of the group with other values, which their Nodes get"},
		{Type: progressing, Reason: ReasonRollingOut, When: "True: Nodes are being written, or a wave waits for its Nodes to be Ready"},
		{Type: progressing, Reason: replacementplan.ReasonPaused,
			When: "False: Machines are outdated, and an annotation of the group pauses their replacement"},
		{Type: progressing, Reason: ReasonReplacing,
			When: "True: outdated Machines are being replaced; the message says what that waits for"},
		{Type: progressing, Reason: ReasonReleasing,
			When: "True: the group is being deleted, or Nodes have left it, and they are being released, after spec.rollout.releaseDelay"},
		{Type: progressing, Reason: ReasonComplete, When: "there is nothing to write and no Machine to replace"},
		{Type: progressing, Reason: ReasonPausing, When: "the next wave waits for the end of spec.rollout.pause"},
		{Type: progressing, Reason: ReasonStopped,
			When: "the roll-out, or the replacement of Machines, has stopped or waits for a confirmation; the condition Blocked says why"},
		{Type: progressing, Reason: ReasonSuspended, When: "spec.suspend is set"},
		{Type: progressing, Reason: ReasonDryRun, When: "spec.dryRun is set: no Node and no Machine is written"},
		{Type: v1alpha1.ConditionReconciling, Reason: "(that of Progressing or Blocked)",
			When: "True: what the group declares is still to reach Nodes or Machines; absent otherwise"},
		{Type: v1alpha1.ConditionStalled, Reason: "(that of Blocked or Ready)",
			When: "True: the group does not continue unless a user or another writer acts, as the message says; absent otherwise"},
	}, blockedDocs(), []status.ConditionDoc{
		{Type: v1alpha1.ConditionOverlapping, Reason: ReasonOverlapping, When: "True: several groups select the same Nodes; the oldest has them"},
		{Type: v1alpha1.ConditionOverlapping, Reason: ReasonExclusive, When: "no other group selects Nodes of this one"},
	}))
}

func blockedDocs() []status.ConditionDoc {
	const blocked = v1alpha1.ConditionBlocked
	return []status.ConditionDoc{
		{Type: blocked, Reason: ReasonNotBlocked, When: "nothing stops the group"},
		{Type: blocked, Reason: rollout.ReasonNodesNotReady,
			When: "True: as many Nodes as spec.rollout.stopWhen.notReady says have become NotReady since the roll-out began; a change of spec.metadata or " +
				"`kubectl drover rollout resume` continues it, and any other change of the spec outside of a suspension if there are fewer by then"},
		{Type: blocked, Reason: rollout.ReasonPodsPending,
			When: "True: as many Pods as spec.rollout.stopWhen.pendingPods says have become unschedulable since the roll-out began; a change of " +
				"spec.metadata or `kubectl drover rollout resume` continues it, and any other change of the spec outside of a suspension if there are " +
				"fewer by then"},
		{Type: blocked, Reason: ReasonNeedsConfirm,
			When: "True: the roll-out takes labels away, or gives them other values, that Pods or PersistentVolumes require; the message says how to " +
				"confirm that"},
		{Type: blocked, Reason: replacementplan.ReasonNewMachineFailed,
			When: "True: a Machine that was created from the current template of its MachineSet has failed, or is not available within " +
				"spec.replacement.progressDeadline; no further Machine is replaced until the template changes or a user resumes it"},
		{Type: blocked, Reason: replacementplan.ReasonSurgeUnavailable,
			When: "True: machine-api-operator creates the Machines, so that old ones go before new ones are created; or the capability machines is off, and " +
				"none is replaced"},
		{Type: blocked, Reason: replacementplan.ReasonPaused, When: "True: an annotation of the group pauses the replacement of its Machines"},
		{Type: blocked, Reason: ReasonNoExecuteHeld,
			When: "True: a taint with the effect NoExecute is held back on some Nodes, as the condition Ready says; the roll-out goes on with the others"},
		{Type: blocked, Reason: disruptionplan.ReasonBudgetExceeded, When: "True: more Nodes are unavailable than spec.disruption.maxUnavailable allows"},
		{Type: blocked, Reason: disruptionplan.ReasonBudgetExhausted,
			When: "True: disruptions wait, and as many Nodes are unavailable as spec.disruption.maxUnavailable allows"},
		{Type: blocked, Reason: disruptionplan.ReasonCapabilityExhausted,
			When: "True: disruptions wait, and the first one is of a capability that has as many Nodes as spec.disruption.perCapability allows"},
		{Type: blocked, Reason: disruptionplan.ReasonRemediationsLimited,
			When: "True: disruptions wait, and the first one is a remediation, of which spec.disruption.remediation.maxInFlight are in flight"},
		{Type: blocked, Reason: disruptionplan.ReasonRemediationInterval,
			When: "True: disruptions wait, and the first one is a remediation that begins after spec.disruption.remediation.minInterval"},
		{Type: blocked, Reason: disruptionplan.ReasonTooManyReservations,
			When: "True: disruptions wait, and as many are in flight as can be recorded"},
		{Type: blocked, Reason: disruptionplan.ReasonWindowClosed, When: "True: disruptions wait until a window of spec.disruption.windows opens"},
		{Type: blocked, Reason: disruptionplan.ReasonFrozen, When: "True: disruptions wait for the end of a freeze of spec.disruption.freezes"},
	}
}
