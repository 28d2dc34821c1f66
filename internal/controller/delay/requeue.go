package delay

import "time"

// Requeue is when an object is reconciled again without an event. The zero value is never.
type Requeue struct{ after time.Duration }

// In asks for a reconciliation after a delay; the shortest delay counts. A delay that is over counts as one millisecond.
func (r *Requeue) In(delay time.Duration) {
	delay = max(delay, time.Millisecond)
	if r.after == 0 || delay < r.after {
		r.after = delay
	}
}

// Delay returns the shortest delay that was asked for; zero is never.
func (r *Requeue) Delay() time.Duration { return r.after }

// Merge asks for what another one asks for, too.
func (r *Requeue) Merge(other Requeue) {
	if other.after > 0 {
		r.In(other.after)
	}
}
