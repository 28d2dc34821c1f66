package pace

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiter_WithoutARate(t *testing.T) {
	l := NewLimiter(0, 0)
	for range 1000 {
		if wait := l.Reserve(named("m"), false, start); wait != 0 {
			t.Fatalf("waits %s", wait)
		}
	}
	l.Forget(named("m"))
}

func TestLimiter_Reservations(t *testing.T) {
	l := NewLimiter(10, 2)
	var waits []time.Duration
	for i := range 5 {
		waits = append(waits, l.Reserve(named(fmt.Sprint(i)), false, start))
	}
	if want := "[0s 0s 100ms 200ms 300ms]"; fmt.Sprint(waits) != want {
		t.Fatalf("waits %v, want %s", waits, want)
	}
	for _, step := range []struct {
		name    string
		machine string
		after   time.Duration
		want    time.Duration
	}{
		{"asking too early returns the rest of the same wait", "3", 50 * time.Millisecond, 150 * time.Millisecond},
		{"and does not move the others", "5", 50 * time.Millisecond, 350 * time.Millisecond},
		{"the reservation is due", "3", 200 * time.Millisecond, 0},
		{"a reservation is valid once", "3", 200 * time.Millisecond, 300 * time.Millisecond},
		{"a reservation is kept for a while", "2", 100*time.Millisecond + reservationLife - time.Millisecond, 0},
		{"after that it has expired, but by now the rate allows a write", "4", 300*time.Millisecond + reservationLife, 0},
	} {
		if got := l.Reserve(named(step.machine), false, start.Add(step.after)); got.Round(time.Millisecond) != step.want {
			t.Errorf("%s: waits %s, want %s", step.name, got, step.want)
		}
	}
}

// A manual edit is undone at once while thousands of Nodes wait.
func TestLimiter_RepairsDuringARollout(t *testing.T) {
	l := NewLimiter(100, 100)
	for i := range 1000 {
		l.Reserve(named(fmt.Sprint(i)), false, start)
	}
	for i := range 10 {
		if wait := l.Reserve(named(fmt.Sprint("drifted", i)), true, start); wait != 0 {
			t.Fatalf("repair %d waits %s", i, wait)
		}
	}
	for i, step := range []struct {
		machine string
		after   time.Duration
		want    time.Duration
	}{
		{"drifted too", 0, 100 * time.Millisecond}, // ten repairs a second
		{"drifted too", 50 * time.Millisecond, 50 * time.Millisecond},
		{"500", 50 * time.Millisecond, 150 * time.Millisecond}, // it waits for the roll-out, and is edited
		{"101", 0, 20 * time.Millisecond},                      // its turn in the roll-out comes before that
		{"drifted too", 100 * time.Millisecond, 0},
		{"500", 200 * time.Millisecond, 0},
	} {
		if wait := l.Reserve(named(step.machine), true, start.Add(step.after)); wait != step.want {
			t.Errorf("step %d: %s waits %s, not %s", i, step.machine, wait, step.want)
		}
	}
}

// However low the rate, a repair a second must be possible, and a burst less than one must not stop all writes.
func TestLimiter_LowRates(t *testing.T) {
	l := NewLimiter(0.01, 0)
	if l.Reserve(named("a"), false, start) != 0 || l.Reserve(named("b"), false, start) != 100*time.Second {
		t.Error("a burst below one does not count as one")
	}
	if l.Reserve(named("c"), true, start) != 0 || l.Reserve(named("d"), true, start.Add(time.Second)) != 0 {
		t.Error("less than one repair per second")
	}
}

func TestLimiter_Forget(t *testing.T) {
	l := NewLimiter(1, 1)
	l.Reserve(named("a"), false, start)
	l.Reserve(named("b"), false, start)
	l.Forget(named("b"))
	if len(l.rollout.turns) != 0 {
		t.Errorf("reservations %v", l.rollout.turns)
	}
	if wait := l.Reserve(named("b"), false, start); wait != 2*time.Second {
		t.Errorf("a Machine of the same name reserves again and waits %s", wait)
	}
}
