package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// check denies a request for which the budget has no place, or its capability none of its own.
func (t *tally) check(in *Input, request *Request) *denial {
	at := place{request.Node, request.UID}
	member, found := t.members.get(request.Node, request.UID)
	if found {
		at.uid = member.UID
	}
	if len(t.reserved) >= MaxReservations {
		return &denial{ReasonTooManyReservations, message("%d Nodes are reserved, which is as many as can be recorded", len(t.reserved)), Recheck}
	}
	if d := t.checkCapability(in, request, at); d != nil {
		return d
	}
	// The disruption of a Node that does not work makes none unavailable.
	if !found || !member.Ready || member.Joining {
		return nil
	}
	spec := in.Group.Spec.Disruption
	switch {
	case t.isReserved(at):
		return nil
	case t.ReservedReady >= t.Limit, t.Unavailable >= t.Limit && !t.isUnavailable(&member):
		counts := t.Counts
		return &denial{ReasonBudgetExhausted, func() string {
			return fmt.Sprintf("%d of %d Nodes are unavailable, and maxUnavailable is %s: %s",
				counts.Unavailable, counts.Expected, describe(spec.MaxUnavailable, counts.Limit), t.names())
		}, Recheck}
	}
	return nil
}

// checkCapability compares a request with the ceilings of its capability, which count every Node that is reserved for it.
func (t *tally) checkCapability(in *Input, request *Request, at place) *denial {
	if t.reserved[at]&bit(request.Capability) != 0 {
		return nil
	}
	inFlight := t.inFlight[request.Capability]
	spec := in.Group.Spec.Disruption
	for i := range spec.PerCapability {
		ceiling := &spec.PerCapability[i]
		if limit := Limit(&ceiling.MaxUnavailable, t.Expected); ceiling.Capability == request.Capability && inFlight >= limit {
			return &denial{ReasonCapabilityExhausted, message("%d Nodes are reserved for %s, and its maxUnavailable is %s",
				inFlight, request.Capability, describe(&ceiling.MaxUnavailable, limit)), Recheck}
		}
	}
	if request.Capability != v1alpha1.CapabilityRemediation {
		return nil
	}
	limits := RemediationLimits{}
	if spec.Remediation != nil {
		limits = RemediationLimits{spec.Remediation.MaxInFlight, spec.Remediation.MinInterval}
	}
	return limits.check(inFlight, t.Expected, t.remediated, in.Now)
}

// RemediationLimits bound how fast Machines are remediated.
type RemediationLimits struct {
	// MaxInFlight is how many remediations may be in flight; nil is 1.
	MaxInFlight *intstr.IntOrString
	// MinInterval is the shortest time between the begin of two of them.
	MinInterval *metav1.Duration
}

// Check returns why a remediation has to wait, and when to ask again; an empty reason if it need not. It is for Machines outside of any group:
// inFlight of so many nodes are being remediated, and last is when the last remediation began.
func (l RemediationLimits) Check(inFlight, nodes int, last, now time.Time) (reason, text string, after time.Duration) {
	if d := l.check(inFlight, nodes, last, now); d != nil {
		return d.reason, d.message(), d.after
	}
	return "", "", 0
}

func (l RemediationLimits) check(inFlight, nodes int, last, now time.Time) *denial {
	limit := Limit(l.MaxInFlight, nodes)
	if inFlight >= limit {
		const text = "%d remediations are in flight, and maxInFlight is %s"
		return &denial{ReasonRemediationsLimited, message(text, inFlight, describe(l.MaxInFlight, limit)), Recheck}
	}
	if l.MinInterval == nil || last.IsZero() {
		return nil
	}
	next := last.Add(l.MinInterval.Duration)
	if !now.Before(next) {
		return nil
	}
	const text = "the last remediation began at %s, and minInterval is %s"
	return &denial{ReasonRemediationInterval, message(text, last.UTC().Format(time.RFC3339), l.MinInterval.Duration), next.Sub(now)}
}
