package upgrade

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
)

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
	EventNodeDelayed  = "NodeUpgradeDelayed"
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
		{Reason: EventNodeDelayed, Type: "Warning", On: "Node",
			When: "for a minute the machine-config-operator has not begun with a node that was released, or pods have blocked its drain; " +
				"the message says which"},
		{Reason: EventNodeGone, Type: "Warning", On: kind, When: "a node under way is no more one of the run's"},
		{Reason: EventJobFailed, Type: "Warning", On: kind, When: "a Job has failed; the message has the last lines of its log"},
		{Reason: EventPutBack, Type: "Warning", On: kind, When: "somebody else has changed a pool that the run has claimed, and it was put back"},
		{Reason: EventStopped, Type: "Warning", On: kind, When: "a failure has stopped the run; no other node is begun"},
		{Reason: EventRestored, Type: "Normal", On: kind, When: "pools, labels and paused flags are as they were before the run"},
		{Reason: EventDone, Type: "Normal", On: kind, When: "all nodes have the version, and everything is given back"},
		{Reason: EventNoEffect, Type: "Warning", On: kind, When: "spec.skipTLSVerify is set, which has no effect"},
	}
}

// tell sends the events for what the status now says for the first time.
func (p *pass) tell(ctx context.Context, before, after *v1alpha1.MutexRunConfigStatus, stood map[string]v1alpha1.NodeStatus) {
	if p.run.Spec.SkipTLSVerify && before.ObservedGeneration != after.ObservedGeneration {
		p.Recorder.Event(p.run, corev1.EventTypeWarning, EventNoEffect, "spec.skipTLSVerify has no effect: the API server's certificate is always verified")
	}
	if before.Phase != after.Phase {
		log.FromContext(ctx).Info("run "+string(after.Phase), "version", after.Version, "why", after.Message)
		p.tellPhase(before, after)
	}
	if p.found.restored {
		p.Recorder.Event(p.run, corev1.EventTypeNormal, EventRestored, "pools, labels and paused flags are as they were before the run")
	}
	if before.Version == after.Version && p.found.nodes != nil {
		p.tellNodes(stood)
	}
}

func (p *pass) tellPhase(before, after *v1alpha1.MutexRunConfigStatus) {
	switch after.Phase {
	case v1alpha1.PhaseInvalid:
		p.Recorder.Event(p.run, corev1.EventTypeWarning, EventInvalid, clip(after.Message))
	case v1alpha1.PhaseClaimed:
		p.Recorder.Event(p.run, corev1.EventTypeWarning, EventClaimed, after.Message)
	case v1alpha1.PhaseStopped:
		p.Recorder.Event(p.run, corev1.EventTypeWarning, EventStopped, clip(after.Message))
	case v1alpha1.PhaseDone:
		p.Recorder.Eventf(p.run, corev1.EventTypeNormal, EventDone, "%d nodes have version %s", after.Done, after.Version)
	case v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning:
		switch before.Phase {
		case v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning, v1alpha1.PhaseStopped, v1alpha1.PhaseClaimed:
		default:
			p.Recorder.Eventf(p.run, corev1.EventTypeNormal, EventStarted,
				"nodes of the targets do not have version %s; their pools are paused", after.Version)
		}
	}
}

// tellNodes sends an event for each node that has come into another phase, whether or not the status has room for it.
func (p *pass) tellNodes(stood map[string]v1alpha1.NodeStatus) {
	there := map[string]bool{}
	for i := range p.found.all {
		there[p.found.all[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(stood)) {
		if phase := stood[name].Phase; !there[name] && phase != v1alpha1.NodePending && phase != v1alpha1.NodeDone {
			p.Recorder.Eventf(p.run, corev1.EventTypeWarning, EventNodeGone, "node %s is no more of the run's; it was %s", name, phase)
		}
	}
	for i := range p.found.all {
		if n := &p.found.all[i]; stood[n.Name].Phase != n.Phase {
			p.tellNode(n, stood[n.Name].Phase)
		}
	}
}

// tellNode sends the event on the Node: one object may have few events in a short time, and a run has many nodes.
func (p *pass) tellNode(n *v1alpha1.NodeStatus, was v1alpha1.NodePhase) {
	on, run := p.nodeOf(n.Name), "MutexRunConfig "+p.key.String()
	if on == nil {
		return
	}
	switch n.Phase {
	case v1alpha1.NodeRunningJobs:
		p.Recorder.Eventf(on, corev1.EventTypeNormal, EventNodeBegun, "%s: %s", run, n.Message)
	case v1alpha1.NodeReleased:
		p.Recorder.Eventf(on, corev1.EventTypeNormal, EventNodeReleased, "%s: it has been moved to pool %s", run, p.run.Spec.Canary.Name)
	case v1alpha1.NodeDone:
		if was != "" && was != v1alpha1.NodePending {
			p.Recorder.Eventf(on, corev1.EventTypeNormal, EventNodeDone, "%s: it has version %s", run, p.found.version)
		}
	case v1alpha1.NodeFailed:
		p.Recorder.Event(on, corev1.EventTypeWarning, EventNodeFailed, clip(run+": "+n.Message))
	}
}

// mostEvent is how long the message of an event may be, in bytes.
const mostEvent = 1024

// clip is a text that an event has room for.
func clip(text string) string { return status.Shorten(text, mostEvent) }
