package main

import (
	"slices"
	"time"
)

// budgetUse is what happened to one budget in a run: when evictions were accepted under it, and when it had the places back.
type budgetUse struct {
	taken, freed []time.Time
	// evicted are the names of the pods: to evict one again while it ends takes no place.
	evicted map[string]bool
}

// take counts an eviction that was accepted.
func (l *budgetUse) take(pod string, at time.Time) {
	if l.evicted[pod] {
		return
	}
	if l.evicted == nil {
		l.evicted = map[string]bool{}
	}
	l.evicted[pod] = true
	l.taken = append(l.taken, at)
}

// turns matches places with evictions in the order in which they came: a place is given back after it was taken, and before it is taken again. All
// places have been given back, so an eviction for which that is not so took none: its pod was not ready yet.
func (l *budgetUse) turns(places int) []time.Duration {
	slices.SortFunc(l.taken, time.Time.Compare)
	slices.SortFunc(l.freed, time.Time.Compare)
	var lengths []time.Duration
	freed := l.freed
	for i, taken := range l.taken {
		for len(freed) > 0 && !freed[0].After(taken) {
			freed = freed[1:]
		}
		if len(freed) == 0 || i+places < len(l.taken) && freed[0].After(l.taken[i+places]) {
			continue
		}
		lengths = append(lengths, freed[0].Sub(taken))
		freed = freed[1:]
	}
	return lengths
}

// idle is how long the places were free, on the average, before the next eviction took them.
func (l *budgetUse) idle(places int) (sum time.Duration, times int) {
	for i := places; i < len(l.taken) && i-places < len(l.freed); i++ {
		sum += max(l.taken[i].Sub(l.freed[i-places]), 0)
		times++
	}
	return sum, times
}

// shortest is the time from the first eviction to the end of the last pod that a budget with so many places allows: each place is taken
// again in the moment in which it is free.
func shortest(lengths []time.Duration, places int, ends time.Duration) time.Duration {
	free := make([]time.Duration, places)
	last := time.Duration(0)
	for _, length := range lengths {
		i := 0
		for j := range free {
			if free[j] < free[i] {
				i = j
			}
		}
		last = max(last, free[i])
		free[i] += length
	}
	return last + ends
}
