package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// check denies a request if the budget has no place for it, or its capability none of its own.
func (t *tally) check(in *Input, request *Request) *denial {
	at := place{request.Node, request.UID}
	member, found := t.members.get(request.Node, request.UID)
	if found {
		at.uid = member.UID
	}
	if t.disruptions >= MaxReservations && in.Group.Name != "" {
		return &denial{ReasonTooManyReservations, message("%d Nodes are being disrupted, which is as many as can be recorded", t.disruptions), Recheck}
	}
	if d := t.checkCapability(in, request, at); d != nil {
		return d
	}
	// The disruption of a Node that does not work makes no Node unavailable.
	if !found || !member.Ready || member.Joining {
		return nil
	}
	spec := in.Group.Spec.Disruption
	switch {
	case t.isDisrupted(at):
		return nil
	case t.DisruptedReady >= t.Limit, t.leavesNone(&member):
		counts := t.Counts
		return &denial{ReasonBudgetExhausted, func() string {
			text := fmt.Sprintf("%d of %d Nodes are unavailable, and maxUnavailable is %s",
				counts.Unavailable, counts.Expected, describe(spec.MaxUnavailable, counts.Limit))
			if names := t.names(); names != "" {
				text += ": " + names
			}
			return text
		}, Recheck}
	}
	return nil
}

// leavesNone reports whether the disruption of a Ready member would exceed the limit. Disrupting an unavailable member does not make one more
// unavailable. A returning member works; if it is disrupted, it is still one unavailable Node, so it is not counted twice.
func (t *tally) leavesNone(member *Member) bool {
	if member.Sign == "" && t.signs[member.Name] == SignReturning {
		return t.Unavailable-1 >= t.Limit
	}
	return t.Unavailable >= t.Limit && !t.isUnavailable(member)
}

// checkCapability compares a request with the ceilings of its capability, which count every Node that it disrupts.
func (t *tally) checkCapability(in *Input, request *Request, at place) *denial {
	if t.disrupted[at]&bit(request.Capability) != 0 {
		return nil
	}
	inFlight := t.inFlight[request.Capability]
	spec := in.Group.Spec.Disruption
	for i := range spec.PerCapability {
		ceiling := &spec.PerCapability[i]
		if limit := t.ceiling(&ceiling.MaxUnavailable); ceiling.Capability == request.Capability && inFlight >= limit {
			return &denial{ReasonCapabilityExhausted, message("%d Nodes are disrupted for %s, and its maxUnavailable is %s",
				inFlight, request.Capability, describe(&ceiling.MaxUnavailable, limit)), Recheck}
		}
	}
	if request.Capability == v1alpha1.CapabilityRemediation {
		return t.checkRemediation(in, inFlight)
	}
	return nil
}

// ceiling returns how many a number or a percentage is. A group whose Nodes are all gone, or have never come, still gets Machines replaced.
func (t *tally) ceiling(value *intstr.IntOrString) int { return Limit(value, max(t.Expected, 1)) }
