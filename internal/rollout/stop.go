package rollout

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/status"
)

// Since returns when the roll-out of the declaration began or was resumed; zero before it has begun and after it has ended.
func (in *Input) Since() time.Time {
	status := in.Before
	if status == nil || !isSameGroup(status.Revision, in.Revision) || status.StartTime == nil || status.EndTime != nil {
		return time.Time{}
	}
	if in.wasSuspended() {
		return in.Now
	}
	if status.ResumeTime != nil && status.ResumeTime.After(status.StartTime.Time) {
		return status.ResumeTime.Time
	}
	return status.StartTime.Time
}

// wasSuspended reports whether a roll-out that was suspended until now goes on. If the roll-out had stopped before, this does not resume it.
func (in *Input) wasSuspended() bool {
	return in.WasSuspended && !in.Suspended && (in.Before == nil || in.Before.Stopped == "")
}

// stopOrResume stops a roll-out, or resumes it if a user wants it to go on. After a change of the spec, it judges the roll-out again. If all waves
// have finished, the roll-out goes on without a user: nothing is left to be stopped.
func (in *Input) stopOrResume(d *Decision, rollout *v1alpha1.RolloutStatus, over bool) {
	ended := over && in.Pending() == 0
	stopped := rollout.Stopped != "" && rollout.StopTime != nil
	switch {
	case stopped && ended:
		rollout.StopReason, rollout.Stopped, rollout.StopTime = "", "", nil
		return
	case stopped && (in.resume(d, rollout) || !in.isJudgedAgain()), in.Ending, ended:
		return
	}
	rollout.StopReason, rollout.Stopped = ReasonNodesNotReady, in.tooManyNotReady()
	if rollout.Stopped == "" {
		rollout.StopReason, rollout.Stopped = ReasonPodsPending, in.tooManyPending()
	}
	switch {
	case rollout.Stopped == "":
		rollout.StopReason, rollout.StopTime = "", nil
	case !stopped:
		rollout.StopTime = timestamp(in.Now)
	}
}

// isJudgedAgain reports whether a change of the spec has a roll-out judged again that has stopped. The end of a suspension has not: a job that
// suspends a group at night and ends that in the morning does not decide on what has stopped.
func (in *Input) isJudgedAgain() bool {
	return in.SpecChanged && !in.WasSuspended
}

// resume resumes a roll-out if a user wants it to go on, and reports whether it does.
func (in *Input) resume(d *Decision, rollout *v1alpha1.RolloutStatus) bool {
	resumed, err := time.Parse(time.RFC3339, in.Resume)
	switch {
	case err != nil, resumed.Before(rollout.StopTime.Time):
	case resumed.After(in.Now):
		// Until then it would resume every later stop, too.
		d.WakeAt(resumed)
	default:
		rollout.StopReason, rollout.Stopped, rollout.StopTime, rollout.ResumeTime = "", "", nil, timestamp(in.Now)
		return true
	}
	return false
}

// tooManyNotReady says which Nodes stop the roll-out; empty for none.
func (in *Input) tooManyNotReady() string {
	var found []string
	for i := range in.Nodes {
		if in.becameNotReady(&in.Nodes[i]) {
			found = append(found, in.Nodes[i].Name)
		}
	}
	allowed := in.maxNotReady()
	if len(found) < allowed {
		return ""
	}
	text := in.textsOf()
	return fmt.Sprintf("%d Nodes have become NotReady since the roll-out began, and %s stops it at %d: %s; %s",
		len(found), text.notReady, allowed, status.FirstNames(found), text.goesOn)
}

// maxNotReady returns how many Nodes that become NotReady stop a roll-out.
func (in *Input) maxNotReady() int {
	var limit *intstr.IntOrString
	if conditions := in.Settings.StopWhen; conditions != nil {
		limit = conditions.NotReady
	}
	return max(1, Resolve(limit, intstr.FromString("10%"), len(in.Nodes)))
}

// tooManyPending says which Pods stop the roll-out; empty for none.
func (in *Input) tooManyPending() string {
	conditions := in.Settings.StopWhen
	if conditions == nil || conditions.PendingPods == nil || len(in.PendingPods) < int(*conditions.PendingPods) {
		return ""
	}
	const text = "%d Pods that fit the Nodes have been unschedulable for two minutes since the roll-out began, and " +
		"spec.rollout.stopWhen.pendingPods stops it at %d: %s; %s"
	return fmt.Sprintf(text, len(in.PendingPods), *conditions.PendingPods, status.FirstNames(in.PendingPods), groupTexts.goesOn)
}
