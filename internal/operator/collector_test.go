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
		heap, filling, want int
	}{
		"a small heap": {0, 60, 200}, "of 32 MiB": {32 << 20, 60, 150}, "of 128 MiB": {128 << 20, 40, 40},
		"of 192 MiB": {192 << 20, 40, 30}, "of 416 MiB": {416 << 20, 25, 25},
	} {
		t.Run(name, func(t *testing.T) {
			heap := make([]byte, c.heap)
			runtime.GC()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				begun := time.Now()
				done := make(chan struct{})
				go func() {
					defer close(done)
					tuneCollector(ctx, func() bool { return time.Since(begun) < time.Minute })
				}()
				time.Sleep(time.Second + time.Millisecond)
				if got := gcPercent(); got != c.filling {
					t.Errorf("while the caches fill GOGC is %d, want %d", got, c.filling)
				}
				time.Sleep(time.Minute + settleTime + time.Second)
				if got := gcPercent(); got != c.want {
					t.Errorf("GOGC is %d, want %d; %d bytes are live", got, c.want, liveHeap())
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
	tuneCollector(t.Context(), nil) // returns at once
}

func gcPercent() int {
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	return percent
}
