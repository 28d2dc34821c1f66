package engine

import (
	"testing"
	"time"
)

// The timeout for volumes starts when the last pod is gone, and anew when another pod has been there.
func TestEmptySince(t *testing.T) {
	e := New(nil, nil, nil, nil, nil, Settings{})
	at := func(seconds int) time.Time { return time.Date(2026, 7, 1, 12, 0, seconds, 0, time.UTC) }
	for _, step := range []struct {
		now   int
		empty bool
		want  time.Time
	}{{0, false, time.Time{}}, {5, true, at(5)}, {9, true, at(5)}, {10, false, time.Time{}}, {12, true, at(12)}} {
		if got := e.emptySince("n", step.empty, at(step.now)); !got.Equal(step.want) {
			t.Errorf("after %d s: %s, want %s", step.now, got, step.want)
		}
	}
	if got := e.emptySince("other", true, at(20)); !got.Equal(at(20)) {
		t.Errorf("another node: %s", got)
	}
}
