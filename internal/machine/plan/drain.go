package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// The conditions of a drain that has ended, in the words of machine-api-operator.
var (
	drainFinished = isTrue("Drain finished successfully")
	drainSkipped  = isTrue("Node drain skipped")
)

// drainNode leads from a Machine that is being deleted to one whose Node is drained, which it reports.
func drainNode(in *Input) (step Step, drained bool) {
	ambiguous := in.Link.Node == nil && in.Link.Conflict != ""
	switch {
	case in.isDrained():
		return Step{}, true
	case in.NodeName() == "" && !ambiguous, in.isExcluded():
		return endDrain(drainSkipped, Normal(EventDrainSkipped, drainSkipped.Message)), false
	case len(in.Machine.Spec.LifecycleHooks.PreDrain) > 0:
		return stop(Wait{Event: Normal(EventDrainBlocked, "Drain blocked by pre-drain hook")}), false
	case ambiguous:
		// One of the Nodes is the Machine's, and its pods must be drained first.
		return in.unlessTimedOut(*drainBlocked(ReasonLinkConflict,
			fmt.Sprintf("%s; if none of these Nodes is this Machine's, set the annotation %s on the Machine", in.Link.Conflict, AnnotationExclude),
			delay.Denied)), false
	case !in.Cordon.Tried:
		return do(CordonNode), false
	case in.Cordon.Blocked != nil:
		return in.unlessTimedOut(*in.Cordon.Blocked), false
	case in.Link.Node == nil:
		return finishDrain("the Node is gone"), false
	case in.Pods == nil:
		return do(EvictPods), false
	}
	return in.endOfDrain(), false
}

// endOfDrain ends the drain, or waits for the remaining pods. If the Node is down, it does not wait for pods of an instance that is gone, or that is
// turned off and has no pod with a volume.
func (in *Input) endOfDrain() Step {
	switch {
	case in.Pods.Done():
		return finishDrain(in.Pods.Text())
	case in.isNodeDown() && in.Unserved == nil && !in.Get.Asked:
		return do(GetInstance)
	case in.isNodeDown() && (in.isMissing() || in.isOff() && !in.hasVolumes()):
		return finishDrain("the instance is gone or turned off, and its pods have ended with it")
	}
	return in.unlessTimedOut(in.drainWait())
}

// isNodeDown reports whether the kubelet of the Node says nothing, or that it is not ready.
func (in *Input) isNodeDown() bool {
	ready := nodestate.Condition(in.Link.Node, corev1.NodeReady)
	return ready != nil && ready.Status != corev1.ConditionTrue
}

// isOff reports whether the provider has said that the instance is turned off: its pods do not run, and no kubelet can end them.
func (in *Input) isOff() bool {
	instance := in.Instance()
	return in.Get.Err == nil && instance != nil && (instance.Off || instance.State == provider.Stopped)
}

// hasVolumes reports whether a pod is left that has a volume: Kubernetes detaches it from the instance only when the pod is being deleted.
func (in *Input) hasVolumes() bool {
	return slices.ContainsFunc(in.Pods.Remaining, func(pod drain.RemainingPod) bool { return pod.HasVolume })
}

// drainWait waits for the pods that are left.
func (in *Input) drainWait() Wait {
	wait := Wait{Type: ConditionDrained, Condition: isFalse(ReasonDraining, in.Pods.Text()), Evicting: true,
		Event: Normal(EventDrainProceeds, "Node drain proceeds")}
	if !in.Pods.Wake.IsZero() {
		wait.RequeueAfter = max(in.Pods.Wake.Sub(in.Now), time.Millisecond)
	}
	return wait
}

// isDrained reports whether the drain has ended, now or in an earlier reconciliation.
func (in *Input) isDrained() bool {
	before := status.MachineCondition(in.Machine.Status.Conditions, ConditionDrained)
	return in.Drained != nil || in.State.Drained || before != nil && before.Status == corev1.ConditionTrue
}

func endDrain(condition Condition, event Event) Step {
	return Step{Action: EndDrain, Drained: condition, Event: event}
}

func finishDrain(how string) Step {
	return endDrain(drainFinished, Normal(EventDrainSucceeded, "Node drain succeeded: "+how))
}

// IsFinished reports whether an EndDrain means that no pod is left to drain.
func (s *Step) IsFinished() bool { return s.Drained == drainFinished }

// unlessTimedOut waits until the time for the drain is over. Then the instance is deleted in spite of what is waited for. Neither hooks nor the
// quorum of the control plane are subject to it.
func (in *Input) unlessTimedOut(wait Wait) Step {
	deadline := in.drainDeadline()
	if deadline.IsZero() || wait.Reason == ReasonQuorum || wait.Reason == ReasonQuorumUnknown {
		return stop(wait)
	}
	if !in.isLate(deadline) {
		wait.RequeueAfter = sooner(wait.RequeueAfter, deadline.Sub(in.Now))
		return stop(wait)
	}
	text := fmt.Sprintf("the drain timeout of %s is exceeded; deleting the instance although the drain is not finished: %s",
		deadline.Sub(in.Machine.DeletionTimestamp.Time), wait.Message)
	return endDrain(isFalse(ReasonDrainTimeout, text), Normal(EventDrainRequeued, text))
}

func drainBlocked(reason, message string, retry time.Duration) *Wait {
	return &Wait{Type: ConditionDrained, Condition: isFalse(reason, message), Event: Normal(EventDrainRequeued, message), RequeueAfter: retry}
}

// CordonDenied is the wait for a Node that Drover cannot cordon until a user corrects something.
func CordonDenied(reason string, err error) *Wait {
	return drainBlocked(reason, err.Error(), delay.Denied)
}

// QuorumBlocked is the wait for a control plane that cannot spare a Node. If err is not nil, nothing could find out whether it can.
func QuorumBlocked(denial string, err error) *Wait {
	reason, retry := ReasonQuorum, delay.Quorum
	if err != nil {
		denial, reason, retry = err.Error(), ReasonQuorumUnknown, delay.Denied
	}
	return drainBlocked(reason, fmt.Sprintf("%s; to delete the Machine nevertheless, set the annotation %s to \"true\" on it", denial,
		AnnotationSkipQuorum), retry)
}

// LeaseBlocked is the wait for a lease that another controller holds.
func LeaseBlocked(held *nodelease.AlreadyHeldError, now time.Time) *Wait {
	return drainBlocked(ReasonLease, held.Error(), delay.UntilLease(held.Until, now))
}

// leaseWait is the wait for a lease that another controller has acquired after the drain.
func (in *Input) leaseWait() Wait {
	wait := *LeaseBlocked(in.Lease.Held, in.Now)
	wait.Type = ConditionReady
	return wait
}

// DrainOptions returns how the Node is drained. since is when it was cordoned; the engine counts from that time. The pods of an unreachable Node
// cannot report their end: the drain waits only for pods within their grace period.
func (in *Input) DrainOptions(since time.Time) drain.Options {
	timeout := in.Settings.VolumeDetachTimeout
	options := drain.Options{Unreachable: drain.Ignore, Volumes: timeout > 0, VolumesTimeout: timeout}
	if deadline := in.drainDeadline(); !deadline.IsZero() {
		options.Deadline = max(deadline.Sub(since), time.Second)
	}
	return options
}
