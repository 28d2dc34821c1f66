package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-io/drover/internal/drain"
)

func TestQueue_RunEndsWithTheContext(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		ctx, cancel := context.WithCancel(q.t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.run(ctx)
		}()
		for i := range 20 {
			node := fmt.Sprintf("n%d", i)
			q.SetTasks(node, tasks(node, fmt.Sprintf("p%d", i)))
		}
		synctest.Wait()
		q.mu.Lock()
		if len(q.sent) != 20 {
			t.Errorf("%d sent", len(q.sent))
		}
		q.mu.Unlock()
		cancel()
		<-done
	})
}

// The request in progress is completed when the operator stops, unless that takes too long.
func TestQueue_CompletesTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		want  error
	}{
		"a second": {time.Second, nil},
		"a minute": {time.Minute, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(q *testQueue) {
				ctx, cancel := context.WithCancel(q.t.Context())
				var got error
				q.send = func(ctx context.Context, _ drain.Task) error {
					cancel()
					select {
					case <-time.After(c.takes):
					case <-ctx.Done():
						got = ctx.Err()
					}
					return got
				}
				q.SetTasks("n1", tasks("n1", "a"))
				begun := time.Now()
				q.run(ctx)
				if took := time.Since(begun); !errors.Is(got, c.want) || took > stopTimeout {
					t.Errorf("the request ended with %v after %s, want %v", got, took, c.want)
				}
			})
		})
	}
}
