package plan

import (
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// checkRemediation compares the remediations in flight, and the time since the last one began, with what the group allows.
func (t *tally) checkRemediation(in *Input, inFlight int) *denial {
	pace := in.Group.Spec.Disruption.Remediation
	if pace == nil {
		pace = &v1alpha1.RemediationPace{}
	}
	limit := t.ceiling(pace.MaxInFlight)
	if inFlight >= limit {
		const text = "%d remediations are in flight, and maxInFlight is %s"
		return &denial{ReasonRemediationsLimited, message(text, inFlight, describe(pace.MaxInFlight, limit)), Recheck}
	}
	if pace.MinInterval == nil || t.remediated.IsZero() {
		return nil
	}
	next := t.remediated.Add(pace.MinInterval.Duration)
	if !in.Now.Before(next) {
		return nil
	}
	const text = "the last remediation began at %s, and minInterval is %s"
	return &denial{
		ReasonRemediationInterval, message(text, t.remediated.UTC().Format(time.RFC3339), pace.MinInterval.Duration), min(next.Sub(in.Now), Recheck),
	}
}
