package upgrade

import "github.com/drover-io/drover/internal/status"

// Reasons of events.
const (
	EventStarted      = "UpgradeRunStarted"
	EventDone         = "UpgradeRunDone"
	EventStopped      = "UpgradeRunStopped"
	EventRestored     = "UpgradeRunRestored"
	EventInvalid      = "UpgradeRunInvalid"
	EventClaimed      = "MachineConfigPoolClaimed"
	EventPutBack      = "MachineConfigPoolPutBack"
	EventNodeBegun    = "NodeJobsStarted"
	EventNodeReleased = "NodeReleased"
	EventNodeDone     = "NodeUpgraded"
	EventNodeFailed   = "NodeUpgradeFailed"
	EventNodeGone     = "NodeLeftRun"
	EventJobFailed    = "MutexJobFailed"
	EventNoEffect     = "SkipTLSVerifyIgnored"
)

// EventDocs describes the events of this capability.
func EventDocs() []status.EventDoc {
	const kind = "MutexRunConfig"
	return []status.EventDoc{
		{Reason: EventStarted, Type: "Normal", On: kind, When: "nodes of the targets do not have the version that is aimed at; their pools are paused"},
		{Reason: EventInvalid, Type: "Warning", On: kind, When: "what the run names is not there, or cannot be used; the message says what"},
		{Reason: EventClaimed, Type: "Warning", On: kind, When: "another run has one of the pools; the message says which"},
		{Reason: EventNodeBegun, Type: "Normal", On: "Node", When: "a node's turn has come, and its first Job was made"},
		{Reason: EventNodeReleased, Type: "Normal", On: "Node", When: "a node's Jobs have succeeded, and it was moved to the canary pool"},
		{Reason: EventNodeDone, Type: "Normal", On: "Node", When: "a node has the version, and its clean-up Jobs have succeeded"},
		{Reason: EventNodeFailed, Type: "Warning", On: "Node", When: "a Job or the upgrade of a node has failed, or takes too long"},
		{Reason: EventNodeGone, Type: "Warning", On: kind, When: "a node under way is no more one of the run's"},
		{Reason: EventJobFailed, Type: "Warning", On: kind, When: "a Job has failed; the message has the last lines of its log"},
		{Reason: EventPutBack, Type: "Warning", On: kind, When: "somebody else has changed a pool that the run has claimed, and it was put back"},
		{Reason: EventStopped, Type: "Warning", On: kind, When: "a failure has stopped the run; no other node is begun"},
		{Reason: EventRestored, Type: "Normal", On: kind, When: "pools, labels and paused flags are as they were before the run"},
		{Reason: EventDone, Type: "Normal", On: kind, When: "all nodes have the version, and everything is given back"},
		{Reason: EventNoEffect, Type: "Warning", On: kind, When: "spec.skipTLSVerify is set, which has no effect"},
	}
}
