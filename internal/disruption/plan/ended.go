package plan

import (
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// OrphanAfter is the age at which a reservation is dropped whose object does not exist. Its writer, a previous leader, may have been stopped before
// its first disruptive write; it does not begin with a reservation that is older than RenewAfter.
const OrphanAfter = 2 * time.Minute

// RenewAfter is how long after it was recorded, by a clock that does not jump, a reservation is enough for a disruption to begin. Then it is
// renewed, which shows that it is still there.
const RenewAfter = 30 * time.Second

// Work is what is known of the work that a reservation is for.
type Work struct {
	Reservation v1alpha1.Reservation
	// Over reports that the work is over, or that it will not begin. Orphaned reports that the object is gone, and that this process has not seen the
	// work end.
	Over, Orphaned bool
	// Gone reports that there is no Node with the UID of the reservation. Since is since when the Node is gone, or has had no sign; zero while it
	// has one.
	Gone  bool
	Since time.Time
	// Replaced reports that a Node that is gone has a Ready successor, or that none is to come because replicas shrank.
	Replaced bool
}

// Pace is how long a Node is waited for.
type Pace struct {
	// MinReady is how long a Node has to be without a sign until it counts as available again.
	MinReady time.Duration
	// Deadline is how long a successor is waited for.
	Deadline time.Duration
}

// Ended reports whether a reservation has ended. If not, after is when to ask again without an event; zero is never.
func Ended(work *Work, pace Pace, now time.Time) (ended bool, after time.Duration) {
	until := work.Since.Add(pace.MinReady)
	switch {
	case work.Gone && work.Replaced:
		return true, 0
	case work.Gone:
		until = work.Since.Add(pace.Deadline)
	case !work.Over && !work.Orphaned, work.Over && work.Since.IsZero():
		return false, 0
	case !work.Over:
		// Its sign, if it has one, is that of another actor and counts on.
		orphaned := now.Add(untilOrphaned(&work.Reservation, now))
		if work.Since.IsZero() || orphaned.After(until) {
			until = orphaned
		}
	}
	if now.Before(until) {
		return false, until.Sub(now)
	}
	return true, 0
}

// untilOrphaned returns how long a reservation is not old enough to be dropped without its work having begun. One that lies farther ahead than
// OrphanAfter was recorded by a clock that was wrong.
func untilOrphaned(reservation *v1alpha1.Reservation, now time.Time) time.Duration {
	age := now.Sub(reservation.Time.Time)
	if age < -OrphanAfter {
		return 0
	}
	return max(0, OrphanAfter-age)
}
