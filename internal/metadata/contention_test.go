package metadata

import (
	"testing"
	"time"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

var taintOfNode = entry{target: plan.OnNode, object: "n1", kind: ownership.Taint, key: "a:NoSchedule"}

func TestContention_NeedsSeveralRepairsInTheWindow(t *testing.T) {
	c := newContention()
	for i := range contentionThreshold - 1 {
		if c.repaired(taintOfNode, start.Add(time.Duration(i)*time.Second)) {
			t.Fatalf("repair %d begins a pause", i+1)
		}
	}
	other := taintOfNode
	other.key = "b:NoSchedule"
	if c.repaired(other, start) {
		t.Error("repairs of different keys are counted together")
	}
	if !c.until(taintOfNode, start).IsZero() {
		t.Error("paused before it is contended")
	}
	if c.repaired(taintOfNode, start.Add(contentionWindow+contentionThreshold*time.Second)) {
		t.Error("a repair after the window begins a pause")
	}
	if !c.any() {
		t.Error("there are no counts")
	}
}

// Another writer may be slow: one that writes every few minutes does not end either. Occasional manual edits are
// no contention.
func TestContention_SlowWriter(t *testing.T) {
	for gap, contended := range map[time.Duration]bool{15 * time.Second: true, 5 * time.Minute: true, contentionWindow: true,
		contentionWindow + time.Second: false} {
		c, found := newContention(), 0
		for i := range 20 {
			if c.repaired(taintOfNode, start.Add(time.Duration(i)*gap)) {
				found++
			}
		}
		if want := map[bool]int{true: 20 - contentionThreshold + 1}[contended]; found != want {
			t.Errorf("every %s: %d rounds, want %d", gap, found, want)
		}
	}
}

// contend makes the repairs that begin a pause.
func contend(c *contention, now time.Time) bool {
	begins := false
	for range contentionThreshold {
		begins = c.repaired(taintOfNode, now)
	}
	return begins
}

func TestContention_PauseDoubles(t *testing.T) {
	c := newContention()
	now, pause := start, contentionPause
	if !contend(c, now) {
		t.Fatal("no contention")
	}
	for range 8 {
		if until := c.until(taintOfNode, now); until != now.Add(pause) {
			t.Fatalf("paused for %s, want %s", until.Sub(now), pause)
		}
		if !c.until(taintOfNode, now.Add(pause)).IsZero() {
			t.Fatal("paused for longer than the pause")
		}
		// The other writer is still there: the first repair after the pause begins the next one.
		now = now.Add(pause)
		if !c.repaired(taintOfNode, now) {
			t.Fatal("the contention goes on and begins no pause")
		}
		pause = min(2*pause, maxContentionPause)
	}
	if pause != maxContentionPause {
		t.Errorf("the pause ends at %s", pause)
	}
	if now = now.Add(contentionWindow + 2*pause + time.Second); c.repaired(taintOfNode, now) {
		t.Error("the contention never ends")
	}
	for range contentionThreshold - 1 {
		c.repaired(taintOfNode, now)
	}
	if c.until(taintOfNode, now) != now.Add(contentionPause) {
		t.Error("a new contention does not begin with the first pause")
	}
}

func TestContention_Forget(t *testing.T) {
	c := newContention()
	onMachine := taintOfNode
	onMachine.target = plan.OnMachine
	contend(c, start)
	c.repaired(onMachine, start)
	c.forget(plan.OnNode, "n2")
	if c.until(taintOfNode, start).IsZero() {
		t.Error("another Node's counts are gone")
	}
	c.forget(plan.OnNode, "n1")
	if !c.until(taintOfNode, start).IsZero() || !c.any() {
		t.Error("the Node's counts are to go, the Machine's of the same name to stay")
	}
	c.forget(plan.OnMachine, "n1")
	if c.any() {
		t.Error("counts are left")
	}
}
