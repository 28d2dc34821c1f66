package operator

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestHeadroomIsForSmallHeaps(t *testing.T) {
	h := newHeadroom()
	for live, want := range map[uint64]bool{collectorHeadroom: false, 2 * collectorHeadroom: false, 2*collectorHeadroom + 1: true} {
		if got := h.tooMuch(live); got != want {
			t.Errorf("%d bytes live: too much %v", live, got)
		}
	}
	if h.NeedLeaderElection() {
		t.Error("one who stands by goes without")
	}
	runtime.GC()
	if live := liveHeap(); live < collectorHeadroom {
		t.Errorf("%d bytes are live, the headroom alone is %d", live, collectorHeadroom)
	}
	runtime.KeepAlive(h.bytes)
}

func TestHeadroomIsLetGoOf(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		kept bool
	}{"the heap is small": {collectorHeadroom, true}, "the heap is large beside it": {1, false}} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				h := &headroom{bytes: make([]byte, c.size)}
				done := make(chan error, 1)
				go func() { done <- h.Start(ctx) }()
				time.Sleep(3 * time.Second)
				cancel()
				if err := <-done; err != nil || (h.bytes != nil) != c.kept {
					t.Errorf("error %v, kept %v", err, h.bytes != nil)
				}
			})
		})
	}
}
