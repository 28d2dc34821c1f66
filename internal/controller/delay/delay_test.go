package delay

import (
	"testing"
	"time"
)

func TestUntilLease(t *testing.T) {
	now := time.Unix(0, 0)
	for left, want := range map[time.Duration]time.Duration{
		-time.Hour: CatchUp, 20 * time.Second: 20 * time.Second, time.Hour: Lease,
	} {
		if got := UntilLease(now.Add(left), now); got != want {
			t.Errorf("held for %s: %s, want %s", left, got, want)
		}
	}
}
