package plan

// Reasons of the conditions of a NodeGroup.
const (
	// ReasonSynced (Ready=True): every Node of the group carries what the group declares.
	ReasonSynced = "Synced"
	// ReasonNotSynced (Ready): some Nodes do not carry what the group declares yet.
	ReasonNotSynced = "NotSynced"
	// ReasonNoNodes (Ready): spec.nodes selects no Node: it may be misspelled, or the pool has scaled to zero; Nodes that join the group get what it
	// declares.
	ReasonNoNodes = "NoNodes"
	// ReasonOverlapping (Ready): each Node that spec.nodes selects belongs to an older group, so that the group has none.
	//
	// ReasonOverlapping (Overlapping=True): several groups select the same Nodes; the oldest has them.
	ReasonOverlapping = "Overlapping"
	// ReasonInvalidSelector (Ready): a selector of spec.nodes is invalid, or it has machineSets and Drover reads no Machines; the group has no Nodes.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonInvalidWindow (Ready): a window or a freeze of spec.disruption cannot be read, such as one in an unknown time zone; no disruption begins
	// until it is corrected.
	ReasonInvalidWindow = "InvalidWindow"
	// ReasonUntrustedSelector (Ready): the group declares labels below node-restriction.kubernetes.io and selects Nodes by what their kubelets can
	// change; these labels are not written.
	ReasonUntrustedSelector = "UntrustedSelector"
	// ReasonRefusedKeys (Ready): a declared key belongs to the system, is invalid, or is a label with which spec.nodes does not select Nodes; it is not
	// written.
	ReasonRefusedKeys = "RefusedKeys"
	// ReasonNoExecuteHeld (Ready): a taint with the effect NoExecute is held back on some Nodes; the message says which limit of spec.rollout.noExecute
	// they exceed, which Pod did not leave in time, which controller has the lease of the Node, or what Drover needs to evict Pods first.
	//
	// ReasonNoExecuteHeld (Blocked=True): a taint with the effect NoExecute is held back on some Nodes, as the condition Ready says; the roll-out goes
	// on with the others.
	ReasonNoExecuteHeld = "NoExecuteHeld"
	// ReasonConflicts (Ready): another writer has set a declared key on some Nodes; spec.metadata.conflictPolicy says what happens then.
	ReasonConflicts = "Conflicts"
	// ReasonContended (Ready): another writer keeps changing declared keys on some Nodes; Drover leaves these keys alone for a while, and the message
	// names the Nodes.
	ReasonContended = "Contended"
	// ReasonDenied (Ready): some Nodes cannot be written: the API server denies it, other writers keep changing them meanwhile, or their Machine cannot
	// be decoded; the message names them.
	ReasonDenied = "Denied"
	// ReasonMachineDeclares (Ready): Machines or MachineSets declare keys of the group with other values, which their Nodes get.
	ReasonMachineDeclares = "MachineSetDeclares"
	// ReasonRollingOut (Progressing=True): Nodes are being written, or a wave waits for its Nodes to be Ready.
	ReasonRollingOut = "RollingOut"
	// ReasonReplacing (Progressing=True): outdated Machines are being replaced; the message says what that waits for.
	ReasonReplacing = "Replacing"
	// ReasonReleasing (Progressing=True): the group is being deleted, or Nodes have left it, and they are being released, after
	// spec.rollout.releaseDelay.
	ReasonReleasing = "Releasing"
	// ReasonComplete (Progressing): there is nothing to write and no Machine to replace.
	ReasonComplete = "Complete"
	// ReasonPausing (Progressing): the next wave waits for the end of spec.rollout.pause.
	ReasonPausing = "Pausing"
	// ReasonStopped (Progressing): the roll-out, or the replacement of Machines, has stopped or waits for a confirmation; the condition Blocked says
	// why.
	ReasonStopped = "Stopped"
	// ReasonSuspended (Progressing): spec.suspend is set.
	ReasonSuspended = "Suspended"
	// ReasonDryRun (Progressing): spec.dryRun is set: no Node and no Machine is written.
	ReasonDryRun = "DryRun"
	// ReasonNotBlocked (Blocked): nothing stops the group.
	ReasonNotBlocked = "NotBlocked"
	// ReasonNeedsConfirm (Blocked=True): the roll-out takes labels away, or gives them other values, that Pods or PersistentVolumes require; the
	// message says how to confirm that.
	ReasonNeedsConfirm = "NeedsConfirm"
	// ReasonExclusive (Overlapping): no other group selects Nodes of this one.
	ReasonExclusive = "Exclusive"
)
