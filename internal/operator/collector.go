package operator

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// gcPercents are the GOGC from a number of live bytes on, while the caches fill and later. With the default the collector runs many times a
// second on a small cluster, and on a large one the process may take twice the memory that it needs. While the caches fill, a start waits for the
// collector. Later, a large cluster has the most memory in use, in a roll-out, which the API server bounds.
var gcPercents = []struct {
	live             uint64
	filling, percent int
}{
	{0, 60, 200}, {32 << 20, 60, 150}, {64 << 20, 40, 100}, {96 << 20, 40, 60}, {128 << 20, 40, 40}, {176 << 20, 40, 30}, {400 << 20, 25, 25},
	{800 << 20, 20, 20},
}

// settleTime is how long after the caches were full the memory is still as in the time before: all objects are reconciled once.
const settleTime = 5 * time.Second

// tuneCollector sets GOGC to what fits the heap until the context ends; filling reports whether caches fill. A GOGC that the user sets counts.
// The limit on the memory is GOMEMLIMIT, which the Deployment sets.
func tuneCollector(ctx context.Context, filling func() bool) {
	if os.Getenv("GOGC") != "" {
		return
	}
	filled, set := time.Now(), gcPercentFor(0, true)
	defer debug.SetGCPercent(debug.SetGCPercent(set))
	// The only error is that the context has ended.
	_ = wait.PollUntilContextCancel(ctx, time.Second/2, false, func(context.Context) (bool, error) {
		if filling() {
			filled = time.Now()
		}
		if percent := gcPercentFor(liveHeap(), time.Since(filled) < settleTime); percent != set {
			set = percent
			debug.SetGCPercent(set)
		}
		return false, nil
	})
}

func gcPercentFor(live uint64, filling bool) (percent int) {
	for _, step := range gcPercents {
		switch {
		case live < step.live:
		case filling:
			percent = step.filling
		default:
			percent = step.percent
		}
	}
	return percent
}

// liveHeap returns what the last collection found in use, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
