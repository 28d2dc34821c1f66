package simulation

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// patience is how long it may take until all is as it is to be, after the last fault. The longest back-off of the controllers is an hour.
const patience = 8 * time.Hour

// outcome is what became of a seed.
type outcome struct {
	// fault is empty when nothing was wrong.
	fault, tail, digest string
	steps, writes       int
	took                time.Duration
}

// configFor is how the process of a seed works.
func configFor(seed uint64) *config {
	return &config{
		slowReads: seed%4 == 3, versioned: seed%3 != 0, replaceFailed: seed%5 == 2, groups: seed%2 == 0,
	}
}

// actionsFor is how many things people and fate do to the cluster of a seed: usually few, since many short runs find more than few long ones.
func actionsFor(seed uint64) int {
	if seed%25 == 0 {
		return 30
	}
	return 2 + int(seed%6)
}

// play runs one seed. Digests asks for the digest of its history.
func play(t *testing.T, seed uint64, c *config, actions int, digests bool) (out outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, c)
		begun := time.Now()
		w.populateCluster()
		w.start()
		synctest.Wait()
		out.fault = w.live(actions)
		if w.process != nil {
			w.crash("the end")
		}
		if broken := w.broken(); broken != "" {
			out.fault = broken
		}
		if out.fault != "" {
			out.tail = w.history.tail(tailLines)
		}
		if digests {
			out.digest = w.history.digest()
		}
		if path := os.Getenv("DROVER_SIMULATION_HISTORY"); path != "" {
			must(os.WriteFile(path, []byte(w.history.tail(len(w.history.lines))), 0o600))
		}
		out.steps, out.writes, out.took = w.steps, w.history.writes, time.Since(begun)
	})
	return out
}

// tailLines is how much of the history a failure shows.
const tailLines = 60

// live is the life of a world: faults, calm, rest. It says what has gone wrong.
func (w *world) live(actions int) string {
	for range actions {
		wait := []time.Duration{w.upTo(time.Second), w.upTo(time.Second), w.upTo(20 * time.Second), w.upTo(2 * time.Minute)}[w.random.IntN(4)]
		w.runUntil(time.Now().Add(wait), nil)
		if w.broken() != "" {
			return ""
		}
		w.act()
		synctest.Wait()
	}
	w.calmDown()
	settled := w.runUntil(time.Now().Add(patience), func() bool {
		if len(w.timers) > 0 {
			return false
		}
		w.tidy()
		return w.unsettled() == ""
	})
	if !settled {
		return fmt.Sprintf("%s after the last fault: %s", patience, w.unsettled())
	}
	return w.rest()
}

// rest holds that nothing is written any more, however much time passes.
func (w *world) rest() string {
	w.history.note("all is as it is to be")
	w.runUntil(time.Now().Add(instanceCheck+time.Minute), nil)
	writes, version := w.history.writes, w.server.version
	long := 6 * time.Minute
	if w.seed%25 == 0 {
		long = 5 * time.Hour
	}
	w.runUntil(time.Now().Add(long), nil)
	switch {
	case w.history.writes != writes:
		return fmt.Sprintf("there are %d requests to write at rest", w.history.writes-writes)
	case w.server.version != version:
		return "something has changed at rest"
	}
	return w.unsettled()
}
