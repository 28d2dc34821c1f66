package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// Report returns disruptions as the status of a group has them: at most one for each Node and capability, the oldest, in the order of their names.
func Report(disrupted []v1alpha1.Reservation) []v1alpha1.Reservation {
	out := slices.SortedFunc(slices.Values(disrupted), func(a, b v1alpha1.Reservation) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Capability, b.Capability), a.Time.Compare(b.Time.Time), cmp.Compare(a.Object, b.Object))
	})
	out = slices.CompactFunc(out, func(a, b v1alpha1.Reservation) bool { return a.Node == b.Node && a.Capability == b.Capability })
	return out[:min(len(out), MaxReservations)]
}

// Explanation says why the disruptions of a group wait.
type Explanation struct {
	// Unavailable names some of the Nodes that count as unavailable, with the reason.
	Unavailable string
	// Reason and Message are about the first request that may not begin; empty where each of them may.
	Reason, Message string
}

// Explain returns why the requests of a group wait.
func Explain(in *Input) Explanation {
	t := newTally(in)
	out := Explanation{Unavailable: t.names()}
	for waiting := range in.Waiting.All(in.Now) {
		if in.reports(&waiting) {
			continue // it begins at its next attempt
		}
		refused := gate(in, &waiting)
		if refused == nil {
			refused = t.check(in, &waiting)
		}
		if refused != nil {
			out.Reason, out.Message = refused.reason, fmt.Sprintf("%s of %s: %s", waiting.Capability, subject(waiting.Node), refused.message())
			return out
		}
	}
	return out
}
