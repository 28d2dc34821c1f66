package main

import (
	"slices"
	"time"
)

// budgetUse is what happened to one budget in a run: when evictions were accepted under it, and when it had the places back.
type budgetUse struct {
	taken, freed []time.Time
}

// turns matches places with evictions in the order in which they came. What was not given back until the end takes as long as the ones
// before on the average.
func (l *budgetUse) turns() []time.Duration {
	slices.SortFunc(l.taken, time.Time.Compare)
	slices.SortFunc(l.freed, time.Time.Compare)
	var lengths []time.Duration
	sum := time.Duration(0)
	for i, taken := range l.taken {
		if i < len(l.freed) && l.freed[i].After(taken) {
			lengths = append(lengths, l.freed[i].Sub(taken))
			sum += l.freed[i].Sub(taken)
		}
	}
	known := len(lengths)
	for len(lengths) < len(l.taken) && known > 0 {
		lengths = append(lengths, sum/time.Duration(known))
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
