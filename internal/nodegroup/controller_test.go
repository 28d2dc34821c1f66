package nodegroup

import (
	"testing"
	"time"
)

func TestIntervalAfter(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 200 * time.Millisecond: time.Second, 400 * time.Millisecond: 2 * time.Second, time.Minute: 5 * time.Second,
	} {
		if got := intervalAfter(took); got != want {
			t.Errorf("after %s it is %s, not %s", took, got, want)
		}
	}
}
