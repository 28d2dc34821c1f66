package machineset

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestInBatches(t *testing.T) {
	for _, c := range []struct {
		name    string
		n, bad  int
		want    int
		batches []int
	}{
		{"nothing", 0, -1, 0, nil},
		{"one", 1, -1, 1, []int{1}},
		{"some", 10, -1, 10, []int{1, 2, 4, 3}},
		{"many", 100, -1, 100, []int{1, 2, 4, 8, 16, 32, 37}},
		{"the first is bad", 1000, 0, 1, []int{1}},
		{"one in the middle is bad", 1000, 5, 7, []int{1, 2, 4}},
		{"the last is bad", 3, 2, 3, []int{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				at := map[time.Time]int{}
				called := make([]bool, c.n)
				made := inBatches(c.n, 1000, func(i int) bool {
					mu.Lock()
					at[time.Now()]++
					called[i] = true
					mu.Unlock()
					// A batch takes a second.
					time.Sleep(time.Second)
					return i != c.bad
				})
				if made != c.want || slices.Contains(called[:made], false) || slices.Contains(called[made:], true) {
					t.Errorf("made %d calls", made)
				}
				var batches []int
				for begin := time.Now().Add(-time.Duration(len(at)) * time.Second); begin.Before(time.Now()); begin = begin.Add(time.Second) {
					batches = append(batches, at[begin])
				}
				if !slices.Equal(batches, c.batches) {
					t.Errorf("batches %v, want %v", batches, c.batches)
				}
			})
		})
	}
}

func TestInBatches_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		inBatches(100, 5, func(int) bool {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return true
		})
		if most.Load() != 5 {
			t.Errorf("%d at once", most.Load())
		}
	})
}
