package plan

import (
	"cmp"
	"slices"
)

// tally counts the Machines of a MachineSet.
type tally struct {
	Set
	// counted are the Machines that are not being deleted. replacing are the counted Machines that are marked and so do not count for the MachineSet.
	counted, replacing int
	// skipped are the Machines that replacement does not concern. working are the other Machines that serve: outdated Machines with a Ready Node, and
	// available new Machines.
	skipped, working int
	// pending are the new Machines that are not available yet. deleting are the outdated Machines that are being deleted.
	pending, deleting int
	// proven reports that a Machine of the current template is available.
	proven bool
}

// newTally counts the Machines of a MachineSet, except for the marks, which mark decides on.
func (d *decider) newTally(set Set) *tally {
	set.Machines = slices.Clone(set.Machines)
	t := &tally{Set: set}
	isReplaced := slices.ContainsFunc(set.Machines, func(m Machine) bool { return m.Outdated })
	for i := range set.Machines {
		m := &set.Machines[i]
		// A user resumes what has stopped then. A Machine that has served since, and fails when nothing is replaced, is for a MachineHealthCheck.
		if !m.Outdated && m.Failed && m.Created.Before(d.resumed) && (isReplaced || !m.HasNode) {
			m.Outdated, m.retried = true, true
		}
		if m.Deleting {
			t.deleting += one(m.Outdated)
			continue
		}
		t.counted++
		switch {
		case m.Skipped:
			t.skipped++
		case m.Outdated:
			t.working += one(m.Ready)
		case d.isAvailable(m):
			t.working++
			t.proven = true
		default:
			t.pending++
		}
	}
	return t
}

func one(counted bool) int {
	if counted {
		return 1
	}
	return 0
}

// missing returns how many Machines the MachineSet is about to create.
func (t *tally) missing() int { return max(0, t.Replicas+t.replacing-t.counted) }

// isShrinking reports whether the MachineSet is about to delete Machines.
func (t *tally) isShrinking() bool { return t.counted > t.Replicas+t.replacing }

// inFlight returns how many Machines are being replaced: the old one is still there, or the new one is not available yet. A paused MachineSet creates
// none.
func (t *tally) inFlight() int {
	if t.Paused {
		return t.deleting
	}
	return max(t.deleting, t.pending+t.missing()-t.replacing)
}

// isFirst reports whether no Machine of the MachineSet is being replaced.
func (t *tally) isFirst() bool { return t.deleting == 0 && t.pending == 0 && t.missing() == 0 }

// needsNew reports whether a Machine has gone although none of the current template is there, or on its way.
func (t *tally) needsNew() bool {
	return t.deleting > 0 && !t.proven && t.pending == 0 && t.missing() == 0
}

// isReplacing reports whether one of the Machines that are marked can be deleted.
func (t *tally) isReplacing() bool {
	return slices.ContainsFunc(t.Machines, func(m Machine) bool { return m.isCandidate() && m.Replacing && !m.retried && !m.Denied })
}

// allReplacing reports whether no further Machine can be marked.
func (t *tally) allReplacing() bool {
	return !slices.ContainsFunc(t.Machines, func(m Machine) bool { return m.isCandidate() && !m.Replacing && !m.retried })
}

// remove moves a Machine to the count of deleted ones, and reports whether it was marked.
func (t *tally) remove(m *Machine) (marked bool) {
	marked = m.Replacing && !m.retried
	t.counted--
	t.deleting++
	t.working -= one(m.Ready)
	t.replacing -= one(marked)
	m.Deleting = true
	return marked
}

// candidate is a Machine that is to be replaced.
type candidate struct {
	set     *tally
	machine *Machine
}

func (m *Machine) isCandidate() bool { return m.Outdated && !m.Skipped && !m.Deleting }

// rank orders Machines by how little they serve.
func (m *Machine) rank() int {
	switch {
	case m.Marked || m.Failed:
		return 0
	case !m.Ready:
		return 1
	}
	return 2
}

// candidates returns the Machines to replace in their order: the Machines that serve the least first, then by zone, then the oldest first.
func (d *decider) candidates() []candidate {
	var all []candidate
	for _, set := range d.sets {
		for i := range set.Machines {
			if m := &set.Machines[i]; m.isCandidate() {
				all = append(all, candidate{set, m})
			}
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(a.machine.rank(), b.machine.rank()), cmp.Compare(a.machine.Zone, b.machine.Zone),
			a.machine.Created.Compare(b.machine.Created), cmp.Compare(a.machine.Name, b.machine.Name),
		)
	})
	return all
}
