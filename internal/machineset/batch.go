package machineset

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/drover-io/drover/internal/status"
)

// inBatches calls a function for 0, 1, ... n-1, in batches of 1, 2, 4 and so on, with at most so many calls at once. After a batch in
// which a call was not good it stops: what fails for one fails for all as a rule, and a thousand refused requests tell no more than one.
// It returns how many calls it made.
func inBatches(n, parallel int, call func(i int) (good bool)) (made int) {
	for size := 1; made < n; size *= 2 {
		var bad atomic.Bool
		var group errgroup.Group
		group.SetLimit(parallel)
		end := min(made+size, n)
		for ; made < end; made++ {
			i := made
			group.Go(func() error {
				if !call(i) {
					bad.Store(true)
				}
				return nil
			})
		}
		_ = group.Wait()
		if bad.Load() {
			return made
		}
	}
	return made
}

// harmless tells that a request failed for what it was about, if it failed: the next one may well succeed.
func harmless(class status.Class) bool {
	return class == status.OK || class == status.Stale || class == status.Gone
}
