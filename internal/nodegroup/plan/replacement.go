package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
)

// replacementReasons are the reasons of the condition Blocked for which Machines wait to be replaced.
var replacementReasons = []string{
	replacementplan.ReasonNewMachineFailed, replacementplan.ReasonSurgeUnavailable, replacementplan.ReasonPaused,
	disruptionplan.ReasonWindowClosed, disruptionplan.ReasonFrozen, disruptionplan.ReasonBudgetExhausted,
}

// replacement returns what is known of the replacement of Machines. A process that has just started knows nothing yet: what the status says stays.
func (in *Input) replacement() replacementplan.Report {
	if in.Replacement != nil {
		return *in.Replacement
	}
	before := &in.Group.Status
	report := replacementplan.Report{Outdated: before.Outdated}
	if c := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionBlocked); c != nil && c.Status == metav1.ConditionTrue &&
		slices.Contains(replacementReasons, c.Reason) {
		report.Reason, report.Message = c.Reason, c.Message
	}
	progressing := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionProgressing)
	if progressing == nil {
		return report
	}
	isPaused := progressing.Reason == replacementplan.ReasonPaused
	if isPaused && report.Reason != replacementplan.ReasonPaused {
		// What keeps others waiting goes before it in Blocked.
		report.Reason, report.Message = progressing.Reason, progressing.Message
	}
	if isPaused || progressing.Reason == ReasonReplacing || progressing.Reason == ReasonStopped && report.Stopped() {
		report.Replacing, report.Progress = true, progressing.Message
	}
	return report
}
