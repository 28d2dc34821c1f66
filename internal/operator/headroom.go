package operator

import (
	"context"
	"runtime/metrics"
	"time"
)

// collectorHeadroom is what a small heap may grow by, in bytes, before it is collected again.
const collectorHeadroom = 24 << 20

// headroom keeps the garbage collector from running many times a second on a small cluster. Its bytes are never used, so the kernel never
// backs them with memory, but the collector counts them when it decides how much may be allocated before it runs again. A heap that has
// grown is collected rarely enough without, and then they are let go of: what they allow would only be memory.
type headroom struct{ bytes []byte }

func newHeadroom() *headroom { return &headroom{bytes: make([]byte, collectorHeadroom)} }

// NeedLeaderElection returns false: a standby replica needs it, too.
func (h *headroom) NeedLeaderElection() bool { return false }

// Start waits until the heap is large, or the context ends.
func (h *headroom) Start(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if h.tooMuch(liveHeap()) {
			h.bytes = nil
			return nil
		}
	}
}

// tooMuch reports whether the rest of the heap is larger than the headroom.
func (h *headroom) tooMuch(live uint64) bool { return live > 2*uint64(len(h.bytes)) }

// liveHeap is what the last collection found in use, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
