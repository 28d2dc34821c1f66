package machineset

import (
	"testing"
	"time"

	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

func TestBackoff(t *testing.T) {
	for class, want := range map[status.Class][]time.Duration{
		status.Denied: {time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute},
		status.Transient: {100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
			3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 51200 * time.Millisecond, time.Minute},
	} {
		var b backoff
		if b.reported() != nil || b.delay(1, start) != 0 {
			t.Error("nothing has failed")
		}
		for i, wait := range want {
			b.fail(class, plan.Failure{Reason: plan.ReasonCreateError, Message: "no"}, 1, start)
			if got := b.delay(1, start); got != wait {
				t.Errorf("%s, %d: %s, want %s", class, i+1, got, wait)
			}
			if reported := b.reported() != nil; reported != (class == status.Denied || i+1 >= tolerance) {
				t.Errorf("%s, %d: reported %v", class, i+1, reported)
			}
		}
		if b.delay(2, start) != 0 || b.delay(1, start.Add(maxBackoff)) != 0 {
			t.Error("a change, or the time, ends it")
		}
	}
}
