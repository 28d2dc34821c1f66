package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// WithPossibleTimes returns where a roll-out was, without times that lie ahead: a clock that was wrong has recorded them, and they would hold the
// roll-out until then.
func WithPossibleTimes(before *v1alpha1.RolloutStatus, now time.Time) *v1alpha1.RolloutStatus {
	if before == nil {
		return nil
	}
	rollout := *before
	for _, at := range []**metav1.Time{
		&rollout.StartTime, &rollout.MachineSetTime, &rollout.ResumeTime, &rollout.StopTime, &rollout.WaveEndTime, &rollout.ReleaseTime, &rollout.EndTime,
	} {
		if *at != nil && !bounded.IsPossible((*at).Time, now) {
			*at = timestamp(now)
		}
	}
	return &rollout
}
