package main

import (
	"slices"
	"time"
)

// budgetUse is how the places of a PodDisruptionBudget were used in a run.
type budgetUse struct {
	// taken are the times at which evictions were accepted, freed those at which the budget allowed one more again.
	taken, freed []time.Time
	// evicted are the names of the Pods: to evict one again while it ends takes no place.
	evicted map[string]bool
}

// take counts an eviction that was accepted.
func (b *budgetUse) take(pod string, at time.Time) {
	if b.evicted[pod] {
		return
	}
	if b.evicted == nil {
		b.evicted = map[string]bool{}
	}
	b.evicted[pod] = true
	b.taken = append(b.taken, at)
}

// turns returns how long each eviction occupied its place. A place is given back after it was taken, and before it is taken again. All places have
// been given back. If none of the returns fits an eviction, the eviction took no place: its Pod was not ready yet.
func (b *budgetUse) turns(places int) (lengths []time.Duration) {
	slices.SortFunc(b.taken, time.Time.Compare)
	slices.SortFunc(b.freed, time.Time.Compare)
	freed := b.freed
	for i, taken := range b.taken {
		for len(freed) > 0 && !freed[0].After(taken) {
			freed = freed[1:]
		}
		if len(freed) == 0 || i+places < len(b.taken) && freed[0].After(b.taken[i+places]) {
			continue
		}
		lengths = append(lengths, freed[0].Sub(taken))
		freed = freed[1:]
	}
	return lengths
}

// idle returns for how many seconds each place was free before the next eviction took it.
func (b *budgetUse) idle(places int) (seconds []float64) {
	for i := places; i < len(b.taken) && i-places < len(b.freed); i++ {
		seconds = append(seconds, max(b.taken[i].Sub(b.freed[i-places]).Seconds(), 0))
	}
	return seconds
}

// fastestDrain returns the time from the first eviction to the end of the last Pod if each place is taken again at the moment at which it is free.
func fastestDrain(lengths []time.Duration, places int, ends time.Duration) time.Duration {
	free := make([]time.Duration, places)
	last := time.Duration(0)
	for _, length := range lengths {
		slices.Sort(free)
		last = max(last, free[0])
		free[0] += length
	}
	return last + ends
}

// replacementLimits limit a rolling replacement.
type replacementLimits struct {
	// surge is how many Machines there may be in addition to the old ones, places how many old Machines may be deleted at the same time.
	machines, surge, places int
	// boot is the time from a new Machine to its working Node, deletion the time from the deletion of an old Machine until it is gone.
	boot, deletion time.Duration
}

// fastest returns how long the replacement takes at best: each new Machine is created at the moment at which an old one starts to be deleted, and an
// old one starts to be deleted at the moment at which its successor works and a place is free.
func (l *replacementLimits) fastest() time.Duration {
	begun := make([]time.Duration, l.machines)
	last := time.Duration(0)
	for i := range begun {
		begun[i] = l.boot
		if i >= l.surge {
			begun[i] += begun[i-l.surge]
		}
		if i >= l.places {
			begun[i] = max(begun[i], begun[i-l.places]+l.deletion)
		}
		last = begun[i] + l.deletion
	}
	return last
}
