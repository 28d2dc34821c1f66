package main

import "time"

// schedule is what bounds a rolling replacement.
type schedule struct {
	// machines are replaced. surge is how many Machines there may be beside them, places how many of the old ones may be going at the same time.
	machines, surge, places int
	// boot is how long it takes from a new Machine to its Node that works, deletion from the deletion of an old one until it is gone.
	boot, deletion time.Duration
}

// shortest returns how long the replacement takes at best: each new Machine is created in the moment in which an old one begins to go, and that one
// begins to go in the moment in which its successor works and a place is free.
func (s *schedule) shortest() time.Duration {
	begun := make([]time.Duration, s.machines)
	last := time.Duration(0)
	for i := range begun {
		begun[i] = s.boot
		if i >= s.surge {
			begun[i] += begun[i-s.surge]
		}
		if i >= s.places {
			begun[i] = max(begun[i], begun[i-s.places]+s.deletion)
		}
		last = begun[i] + s.deletion
	}
	return last
}
