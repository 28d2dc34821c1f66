package pace

import (
	"testing"
	"time"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

var taintOfNode = Key{Target: plan.OnNode, Object: "n1", Kind: ownership.Taint, Key: "a:NoSchedule"}

func TestContention_NeedsSeveralRepairsInTheWindow(t *testing.T) {
	c := NewContention()
	for i := range ContentionThreshold - 1 {
		if c.Repaired(taintOfNode, start.Add(time.Duration(i)*time.Second)) {
			t.Fatalf("repair %d begins a pause", i+1)
		}
	}
	other := taintOfNode
	other.Key = "b:NoSchedule"
	if c.Repaired(other, start) {
		t.Error("repairs of different keys are counted together")
	}
	if !c.Until(taintOfNode, start).IsZero() {
		t.Error("paused before it is contended")
	}
	if c.Repaired(taintOfNode, start.Add(contentionWindow+ContentionThreshold*time.Second)) {
		t.Error("a repair after the window begins a pause")
	}
	if !c.Any() {
		t.Error("there are no counts")
	}
}

// Another writer may be slow: contention with a writer that writes every few minutes does not end either. Occasional manual edits are no contention.
func TestContention_SlowWriter(t *testing.T) {
	for gap, contended := range map[time.Duration]bool{15 * time.Second: true, 5 * time.Minute: true, contentionWindow: true,
		contentionWindow + time.Second: false} {
		c, found := NewContention(), 0
		for i := range 20 {
			if c.Repaired(taintOfNode, start.Add(time.Duration(i)*gap)) {
				found++
			}
		}
		if want := map[bool]int{true: 20 - ContentionThreshold + 1}[contended]; found != want {
			t.Errorf("every %s: %d rounds, want %d", gap, found, want)
		}
	}
}

// contend makes the repairs that begin a pause.
func contend(c *Contention, now time.Time) bool {
	begins := false
	for range ContentionThreshold {
		begins = c.Repaired(taintOfNode, now)
	}
	return begins
}

func TestContention_PauseDoubles(t *testing.T) {
	c := NewContention()
	now, pause := start, ContentionPause
	if !contend(c, now) {
		t.Fatal("no contention")
	}
	for range 8 {
		if until := c.Until(taintOfNode, now); until != now.Add(pause) {
			t.Fatalf("paused for %s, want %s", until.Sub(now), pause)
		}
		if !c.Until(taintOfNode, now.Add(pause)).IsZero() {
			t.Fatal("paused for longer than the pause")
		}
		// The other writer is still there: the first repair after the pause begins the next one.
		now = now.Add(pause)
		if !c.Repaired(taintOfNode, now) {
			t.Fatal("the contention goes on and begins no pause")
		}
		pause = min(2*pause, maxContentionPause)
	}
	if pause != maxContentionPause {
		t.Errorf("the pause ends at %s", pause)
	}
	if now = now.Add(contentionWindow + 2*pause + time.Second); c.Repaired(taintOfNode, now) {
		t.Error("the contention never ends")
	}
	for range ContentionThreshold - 1 {
		c.Repaired(taintOfNode, now)
	}
	if c.Until(taintOfNode, now) != now.Add(ContentionPause) {
		t.Error("a new contention does not begin with the first pause")
	}
}

// A contention goes on between its pauses, and is over when no repair was needed for long enough.
func TestContention_Over(t *testing.T) {
	c := NewContention()
	c.Repaired(taintOfNode, start)
	if over := c.Over(taintOfNode, start); !over.IsZero() {
		t.Errorf("after one repair there is a contention until %s", over)
	}
	c = NewContention()
	contend(c, start)
	over := start.Add(contentionWindow + 2*ContentionPause)
	for at, want := range map[time.Time]time.Time{start.Add(ContentionPause + time.Second): over, over: {}} {
		if got := c.Over(taintOfNode, at); got != want {
			t.Errorf("at %s it is over at %s, want %s", at, got, want)
		}
	}
}

func TestContention_Forget(t *testing.T) {
	c := NewContention()
	onMachine := taintOfNode
	onMachine.Target = plan.OnMachine
	contend(c, start)
	c.Repaired(onMachine, start)
	c.Forget(plan.OnNode, "n2")
	if c.Until(taintOfNode, start).IsZero() {
		t.Error("another Node's counts are gone")
	}
	c.Forget(plan.OnNode, "n1")
	if !c.Until(taintOfNode, start).IsZero() || !c.Any() {
		t.Error("the Node's counts are to go, the Machine's of the same name to stay")
	}
	c.Forget(plan.OnMachine, "n1")
	if c.Any() {
		t.Error("counts are left")
	}
}
