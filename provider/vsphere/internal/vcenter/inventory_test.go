package vcenter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// TestCached_Hangs: a lookup that gets no answer must not cost each worker its patience.
func TestCached_Hangs(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Now())
	i, made := newInventory(clock), 0
	look := func(takes time.Duration, err error) error {
		_, got := cached(i, "key", func() (string, error) {
			made++
			clock.Step(takes)
			return "", err
		})
		return got
	}
	for range 3 {
		if err := look(5*time.Second, fmt.Errorf("looking: %w", context.DeadlineExceeded)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		clock.Step(9 * time.Second)
	}
	if made != 1 {
		t.Errorf("it is looked up %d times within half a minute, want once", made)
	}
	clock.Step(4 * time.Second)
	if err := look(0, fmt.Errorf("looking: %w", context.Canceled)); !errors.Is(err, context.Canceled) || made != 2 {
		t.Errorf("error %v after %d lookups", err, made)
	}
	if err := look(0, nil); err != nil || made != 3 {
		t.Errorf("error %v after %d lookups: one that was canceled counts", err, made)
	}
}
