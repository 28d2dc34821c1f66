package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

// defaultDeadline is how long a successor is waited for where the group does not say: the default of spec.replacement.progressDeadline.
const defaultDeadline = 30 * time.Minute

// Successor is an available Node that may have taken the place of one that is gone.
type Successor struct {
	UID     types.UID
	Created time.Time
}

// Successors remembers which Nodes have taken the place of which ones: each takes that of one. The zero value knows nothing yet.
type Successors struct {
	taken map[types.UID]disruptionplan.Key
}

// OldestGone returns when the first of the Nodes that are gone was reserved; zero for none.
func OldestGone(works []disruptionplan.Work) (oldest time.Time) {
	for i := range works {
		if at := works[i].Reservation.Time.Time; works[i].Gone && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	return oldest
}

// Match marks the works as replaced whose Node is gone and has a successor, those that were reserved first before others. missing is how many Nodes
// the group still lacks; where it is not known, which is less than zero, each Node that joined after a reservation is the successor of one. The Nodes
// of the first call may be those of reservations that a process before this one has ended: they are the successors of none.
func (s *Successors) Match(works []disruptionplan.Work, nodes []Successor, missing int) {
	slices.SortFunc(works, func(a, b disruptionplan.Work) int { return a.Reservation.Time.Compare(b.Reservation.Time.Time) })
	var gone []*disruptionplan.Work
	for i := range works {
		if works[i].Gone {
			gone = append(gone, &works[i])
		}
	}
	switch {
	case s.taken == nil:
		s.taken = map[types.UID]disruptionplan.Key{}
		for i := range nodes {
			s.taken[nodes[i].UID] = disruptionplan.Key{}
		}
	case len(gone) == 0:
		clear(s.taken)
	}
	for i, work := range gone {
		if missing >= 0 {
			work.Replaced = i < len(gone)-missing
		} else {
			work.Replaced = s.find(&work.Reservation, nodes)
		}
	}
}

// find reports whether a Node has taken the place of a reserved one that is gone.
func (s *Successors) find(reservation *v1alpha1.Reservation, nodes []Successor) bool {
	key := disruptionplan.KeyOf(reservation)
	for i := range nodes {
		taken, known := s.taken[nodes[i].UID]
		switch {
		case known && taken == key:
			return true
		case !known && nodes[i].Created.After(reservation.Time.Time):
			s.taken[nodes[i].UID] = key
			return true
		}
	}
	return false
}

// EndReservations returns the reservations that have ended, and when to ask again without an event; zero is never.
func EndReservations(works []disruptionplan.Work, pace disruptionplan.Pace, now time.Time) (ended []v1alpha1.Reservation, wake time.Time) {
	for i := range works {
		over, after := disruptionplan.Ended(&works[i], pace, now)
		switch at := now.Add(after); {
		case over:
			ended = append(ended, works[i].Reservation)
		case after > 0 && (wake.IsZero() || at.Before(wake)):
			wake = at
		}
	}
	return ended, wake
}

// PaceOf returns how long the Nodes of a group are waited for.
func PaceOf(in *Input) disruptionplan.Pace {
	settings := in.settings()
	pace := disruptionplan.Pace{MinReady: time.Duration(settings.MinReadySeconds) * time.Second, Deadline: defaultDeadline}
	if r := in.Group.Spec.Replacement; r != nil && r.ProgressDeadline != nil {
		pace.Deadline = r.ProgressDeadline.Duration
	}
	return pace
}
