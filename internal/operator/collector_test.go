package operator

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestTuneCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	before := gcPercent()
	for name, c := range map[string]struct {
		heap  int
		tuned bool
	}{"the heap is small": {0, true}, "the heap has grown": {smallHeap, false}} {
		t.Run(name, func(t *testing.T) {
			heap := make([]byte, c.heap)
			runtime.GC()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					tuneCollector(ctx)
				}()
				time.Sleep(3 * time.Second)
				if tuned := gcPercent() == smallHeapGCPercent; tuned != c.tuned {
					t.Errorf("tuned: %t, %d bytes are live", tuned, liveHeap())
				}
				cancel()
				<-done
			})
			runtime.KeepAlive(heap)
			if after := gcPercent(); after != before {
				t.Errorf("GOGC was %d and is %d", before, after)
			}
		})
	}
}

func TestTuneCollector_LeavesTheUsersGOGC(t *testing.T) {
	t.Setenv("GOGC", "50")
	tuneCollector(t.Context()) // returns at once
}

func gcPercent() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}
