// Package delay has the delays after which controllers try again without an event. The same cause waits equally long in each of them.
package delay

import "time"

const (
	// CatchUp is how soon an object is reconciled again while the cache does not show Drover's own last write of it. The event usually comes first.
	CatchUp = time.Second
	// Denied is how soon a request is tried again that the API server denied, or that only a user can correct.
	Denied = time.Minute
	// Conflict is the first delay after the guard of a patch failed.
	Conflict = 100 * time.Millisecond
	// Quorum is how soon the control plane is asked again that cannot spare a node: much of what changes that has no event.
	Quorum = 5 * time.Second
	// Joining is how soon a disruption is asked for again whose Node is about to get its Machine.
	Joining = time.Second
	// Lease is how soon a node lease is asked for again at the latest that another holder has: it may expire without an event.
	Lease = 30 * time.Second
	// Budget is how soon a disruption is asked for again at the latest that waits for its NodeGroup.
	Budget = 30 * time.Second
)

// UntilLease returns how soon a node lease is asked for again that another holder has until a time.
func UntilLease(until, now time.Time) time.Duration { return min(max(until.Sub(now), CatchUp), Lease) }
