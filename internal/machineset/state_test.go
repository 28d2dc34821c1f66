package machineset

import (
	"testing"
	"time"

	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

func TestSetbacks(t *testing.T) {
	for class, want := range map[status.Class][]time.Duration{
		status.Denied: {time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute},
		status.Transient: {100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
			3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 51200 * time.Millisecond, time.Minute},
	} {
		var s setback
		if s.told() != nil || s.holds(1, start) != 0 {
			t.Error("nothing has failed")
		}
		for i, wait := range want {
			s.failed(class, plan.Failure{Reason: plan.ReasonCreateError, Message: "no"}, 1, start)
			if got := s.holds(1, start); got != wait {
				t.Errorf("%s, %d: %s, want %s", class, i+1, got, wait)
			}
			if told := s.told() != nil; told != (class == status.Denied || i+1 >= patience) {
				t.Errorf("%s, %d: told %v", class, i+1, told)
			}
		}
		if s.holds(2, start) != 0 || s.holds(1, start.Add(maxSetback)) != 0 {
			t.Error("a change, or the time, ends it")
		}
	}
}
