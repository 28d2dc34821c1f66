package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// withPossibleTimes returns the group with a status in which no time of the roll-out lies ahead: it would hold the group until then.
func withPossibleTimes(group *v1alpha1.NodeGroup, now time.Time) *v1alpha1.NodeGroup {
	if group.Status.Rollout == nil {
		return group
	}
	wrong := func(at *metav1.Time) bool { return at != nil && !bounded.IsPossible(at.Time, now) }
	rollout := *group.Status.Rollout
	times := []**metav1.Time{
		&rollout.StartTime, &rollout.MachineSetTime, &rollout.ResumeTime, &rollout.StopTime, &rollout.WaveEndTime, &rollout.ReleaseTime, &rollout.EndTime,
	}
	changed := false
	for _, at := range times {
		if wrong(*at) {
			*at, changed = timestamp(now), true
		}
	}
	if !changed {
		return group
	}
	corrected := *group
	corrected.Status.Rollout = &rollout
	return &corrected
}
