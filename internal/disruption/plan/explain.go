package plan

import "fmt"

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
