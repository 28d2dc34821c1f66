package operator

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// smallHeap is how many bytes a small heap has, smallHeapGCPercent the GOGC for it.
	smallHeap          = 32 << 20
	smallHeapGCPercent = 200
)

// tuneCollector has the garbage collector run less often until the heap has grown, or the context ends: with the default it runs many times a
// second on a small cluster. A GOGC that the user sets counts. The limit on the memory is GOMEMLIMIT, which the Deployment sets.
func tuneCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(smallHeapGCPercent))
	// The only error is that the context has ended.
	_ = wait.PollUntilContextCancel(ctx, time.Second, false, func(context.Context) (bool, error) { return liveHeap() > smallHeap, nil })
}

// liveHeap returns what the last collection found in use, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
