package machineset

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/status"
)

// inBatches calls a function for 0, 1, ... n-1, in batches of 1, 2, 4 and so on, with at most parallel calls at once. If a call returns false, it
// stops after that batch: what fails for one usually fails for all, and a thousand denied requests say no more than one. It returns how many calls it
// made.
func inBatches(n, parallel int, call func(i int) bool) (made int) {
	for size := 1; made < n; size *= 2 {
		var stop atomic.Bool
		var group errgroup.Group
		group.SetLimit(parallel)
		end := min(made+size, n)
		for ; made < end; made++ {
			i := made
			group.Go(func() error {
				if !call(i) {
					stop.Store(true)
				}
				return nil
			})
		}
		_ = group.Wait()
		if stop.Load() {
			return made
		}
	}
	return made
}

// mayGoOn reports whether the next request may succeed: this one did, or failed because its own object has changed.
func mayGoOn(class status.Class) bool {
	return class == status.OK || class == status.Stale || class == status.Gone
}
