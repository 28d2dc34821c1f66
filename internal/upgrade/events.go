package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// Reasons of events.
const (
	// EventStarted (Normal on MutexRunConfig): nodes of the targets do not have the desired version; their MachineConfigPools are paused.
	EventStarted = "UpgradeRunStarted"
	// EventInvalid (Warning on MutexRunConfig): what the run names does not exist or is invalid; the message says what.
	EventInvalid = "UpgradeRunInvalid"
	// EventReserved (Warning on MutexRunConfig): another run has reserved a MachineConfigPool; the message says which.
	EventReserved = "MachineConfigPoolClaimed"
	// EventNodeStarted (Normal on Node): a node has its turn, and its first Job was created.
	EventNodeStarted = "NodeJobsStarted"
	// EventNodeReleased (Normal on Node): the Jobs of a node have succeeded, and it was moved to the canary.
	EventNodeReleased = "NodeReleased"
	// EventNodeDone (Normal on Node): a node has the desired version, and its clean-up Jobs have succeeded.
	EventNodeDone = "NodeUpgraded"
	// EventNodeFailed (Warning on Node): a Job or the upgrade of a node has failed or takes too long.
	EventNodeFailed = "NodeUpgradeFailed"
	// EventNodeDelayed (Warning on Node): for a minute the machine-config-operator has not started to update a released node, or pods have blocked its
	// drain; the message says which.
	EventNodeDelayed = "NodeUpgradeDelayed"
	// EventNodeLeft (Warning on MutexRunConfig): a node in progress no longer belongs to the run.
	EventNodeLeft = "NodeLeftRun"
	// EventJobFailed (Warning on MutexRunConfig): a Job has failed; the message has the last lines of its log.
	EventJobFailed = "MutexJobFailed"
	// EventReverted (Warning on MutexRunConfig): another writer has changed a reserved MachineConfigPool, and the change was reverted.
	EventReverted = "MachineConfigPoolPutBack"
	// EventStopped (Warning on MutexRunConfig): a failure has stopped the run; no other node is started.
	EventStopped = "UpgradeRunStopped"
	// EventRestored (Normal on MutexRunConfig): MachineConfigPools and labels are as they were before the run.
	EventRestored = "UpgradeRunRestored"
	// EventDone (Normal on MutexRunConfig): all nodes have the desired version, and everything is restored.
	EventDone = "UpgradeRunDone"
	// EventNoEffect (Warning on MutexRunConfig): spec.skipTLSVerify is set, which has no effect.
	EventNoEffect = "SkipTLSVerifyIgnored"
)

const (
	// maxEvent is the longest message of an event, in bytes.
	maxEvent = 1024
	// delayTolerance is how long a released node may be delayed before an event reports it.
	delayTolerance = time.Minute
	// logsTimeout is how long it may take to read the last lines of a Job's log.
	logsTimeout = 5 * time.Second
)

// shorten bounds the message of an event.
func shorten(text string) string { return status.Shorten(text, maxEvent) }

// reportStatus emits the events for what the status says for the first time.
func (rc *reconciliation) reportStatus(ctx context.Context, run *plan.Run, report *plan.Report, after *v1alpha1.MutexRunConfigStatus) {
	before := &run.Config.Status
	if rc.config.Spec.SkipTLSVerify && before.ObservedGeneration != after.ObservedGeneration {
		rc.Recorder.Event(rc.config, corev1.EventTypeWarning, EventNoEffect,
			"spec.skipTLSVerify has no effect: the API server's certificate is always verified")
	}
	if before.Phase != after.Phase {
		log.FromContext(ctx).Info("the run is "+string(after.Phase), "version", after.Version, "message", after.Message)
		rc.reportPhase(before, after)
	}
	if report.Restored {
		rc.Recorder.Event(rc.config, corev1.EventTypeNormal, EventRestored, "MachineConfigPools and labels are as they were before the run")
	}
}

func (rc *reconciliation) reportPhase(before, after *v1alpha1.MutexRunConfigStatus) {
	switch after.Phase {
	case v1alpha1.PhaseInvalid:
		rc.Recorder.Event(rc.config, corev1.EventTypeWarning, EventInvalid, shorten(after.Message))
	case v1alpha1.PhaseClaimed:
		rc.Recorder.Event(rc.config, corev1.EventTypeWarning, EventReserved, after.Message)
	case v1alpha1.PhaseStopped:
		rc.Recorder.Event(rc.config, corev1.EventTypeWarning, EventStopped, shorten(after.Message))
	case v1alpha1.PhaseDone:
		rc.Recorder.Eventf(rc.config, corev1.EventTypeNormal, EventDone, "%d nodes have version %s", after.Done, after.Version)
	case v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning:
		switch before.Phase {
		case v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning, v1alpha1.PhaseStopped, v1alpha1.PhaseClaimed:
		default:
			rc.Recorder.Eventf(rc.config, corev1.EventTypeNormal, EventStarted,
				"nodes of the targets do not have version %s; their MachineConfigPools are paused", after.Version)
		}
	}
}

// reportNodes emits an event for each node that is in another phase than before, whether or not the status lists it.
func (rc *reconciliation) reportNodes(run *plan.Run, nodes []v1alpha1.NodeStatus, before map[string]v1alpha1.NodeStatus) {
	objects, present := map[string]*corev1.Node{}, map[string]bool{}
	for _, node := range run.Nodes {
		objects[node.Name] = node.Node
	}
	for i := range nodes {
		n := &nodes[i]
		present[n.Name] = true
		if on := objects[n.Name]; on != nil && before[n.Name].Phase != n.Phase {
			rc.reportNode(on, n, before[n.Name].Phase, run.Desired)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if phase := before[name].Phase; !present[name] && phase != v1alpha1.NodePending && phase != v1alpha1.NodeDone {
			rc.Recorder.Eventf(rc.config, corev1.EventTypeWarning, EventNodeLeft, "node %s no longer belongs to the run; it was %s", name, phase)
		}
	}
}

// reportNode emits the event on the Node: an object may have only few events in a short time, and a run has many nodes.
func (rc *reconciliation) reportNode(on *corev1.Node, n *v1alpha1.NodeStatus, before v1alpha1.NodePhase, version string) {
	run := "MutexRunConfig " + rc.key.String()
	switch n.Phase {
	case v1alpha1.NodeRunningJobs:
		rc.Recorder.Eventf(on, corev1.EventTypeNormal, EventNodeStarted, "%s: %s", run, n.Message)
	case v1alpha1.NodeReleased:
		rc.Recorder.Eventf(on, corev1.EventTypeNormal, EventNodeReleased, "%s: it has been moved to MachineConfigPool %s", run, rc.config.Spec.Canary.Name)
	case v1alpha1.NodeDone:
		if before != "" && before != v1alpha1.NodePending {
			rc.Recorder.Eventf(on, corev1.EventTypeNormal, EventNodeDone, "%s: it has version %s", run, version)
		}
	case v1alpha1.NodeFailed:
		rc.Recorder.Event(on, corev1.EventTypeWarning, EventNodeFailed, shorten(run+": "+n.Message))
	}
}

// reportDelays emits an event for each released node that has been delayed for a while.
func (rc *reconciliation) reportDelays(steps []plan.Step) outcome {
	delays, out := map[string]delay{}, settled()
	for i := range steps {
		step := &steps[i]
		if step.Delay == "" {
			continue
		}
		current := rc.state.delays[step.Status.Name]
		if current.reason != step.Delay {
			current = delay{reason: step.Delay, since: rc.now}
		}
		if wait := current.since.Add(delayTolerance).Sub(rc.now); wait > 0 {
			out.Requeue.In(wait)
		} else if !current.reported {
			current.reported = true
			rc.Recorder.Event(step.Node.Node, corev1.EventTypeWarning, EventNodeDelayed, shorten("MutexRunConfig "+rc.key.String()+": "+step.Status.Message))
		}
		delays[step.Status.Name] = current
	}
	rc.state.delays = delays
	return out
}

// reportFailedJobs emits an event for each Job that has failed, with the last lines of its log.
func (rc *reconciliation) reportFailedJobs(ctx context.Context, run *plan.Run, report *plan.Report) {
	for key, job := range run.Jobs {
		failure := plan.JobCondition(job, batchv1.JobFailed)
		if failure == nil || rc.state.reportedJobs[job.UID] {
			continue
		}
		if failure.LastTransitionTime.Time.Before(rc.state.firstSeen.Truncate(time.Second)) && !report.FailureIsNew(run, job) {
			continue
		}
		rc.state.reportedJobs[job.UID] = true
		rc.Metrics.jobs.WithLabelValues(job.Labels[plan.LabelKind], resultFailed).Inc()
		text := fmt.Sprintf("Job %s for node %s has failed: %s", key, job.Annotations[plan.AnnotationNode], failure.Message)
		var on client.Object = rc.config
		rule := ruleOf(run, job)
		if rule != nil {
			if rule.Object.Namespace != rc.config.Namespace {
				// A user who may read the events of the run's namespace may not be allowed to read logs of the rule's.
				rc.Recorder.Event(rc.config, corev1.EventTypeWarning, EventJobFailed, shorten(text))
				on = rule.Object
			}
			text += rc.lastLines(ctx, job)
		}
		rc.Recorder.Event(on, corev1.EventTypeWarning, EventJobFailed, shorten(text))
	}
}

// lastLines returns the end of a Job's log; empty if there is none. A kubelet that does not answer must not delay the run for long.
func (rc *reconciliation) lastLines(ctx context.Context, job *batchv1.Job) string {
	if rc.Logs == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, logsTimeout)
	defer cancel()
	switch lines, err := rc.Logs(ctx, job); {
	case err != nil:
		return fmt.Sprintf(" (its log cannot be read: %v)", err)
	case lines != "":
		return "; the last lines of its log:\n" + lines
	}
	return ""
}
