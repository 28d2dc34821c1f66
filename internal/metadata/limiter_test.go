package metadata

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

func TestPacerWithoutARate(t *testing.T) {
	p := newPacer(0, 0)
	for range 1000 {
		if wait := p.admit(named("m"), false, start); wait != 0 {
			t.Fatalf("waits %s", wait)
		}
	}
	p.forget(named("m"))
}

func TestPacerGivesTurns(t *testing.T) {
	p := newPacer(10, 2)
	var waits []time.Duration
	for i := range 5 {
		waits = append(waits, p.admit(named(fmt.Sprint(i)), false, start))
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
		{"who asks too early hears the rest of the same wait", "3", 50 * time.Millisecond, 150 * time.Millisecond},
		{"and takes nobody else's turn with that", "5", 50 * time.Millisecond, 350 * time.Millisecond},
		{"the turn has come", "3", 200 * time.Millisecond, 0},
		{"a turn is good once", "3", 200 * time.Millisecond, 300 * time.Millisecond},
		{"a turn is kept for a while", "2", 100*time.Millisecond + slotLife - time.Millisecond, 0},
		{"after that it is void, but by now there are free ones", "4", 300*time.Millisecond + slotLife, 0},
	} {
		if got := p.admit(named(step.machine), false, start.Add(step.after)); got.Round(time.Millisecond) != step.want {
			t.Errorf("%s: waits %s, want %s", step.name, got, step.want)
		}
	}
}

// A hand edit is put back at once while thousands of Nodes wait.
func TestPacerRepairsBesideARollOut(t *testing.T) {
	p := newPacer(100, 100)
	for i := range 1000 {
		p.admit(named(fmt.Sprint(i)), false, start)
	}
	for i := range 10 {
		if wait := p.admit(named(fmt.Sprint("drifted", i)), true, start); wait != 0 {
			t.Fatalf("repair %d waits %s", i, wait)
		}
	}
	if wait := p.admit(named("drifted too"), true, start); wait < 9*time.Second {
		t.Errorf("a repair beyond its share takes a turn like the others, not %s", wait)
	}
	if wait := p.admit(named("500"), true, start); wait != 4010*time.Millisecond {
		t.Errorf("a Machine that waits keeps its turn, not %s", wait)
	}
	if wait := p.admit(named("500"), true, start.Add(100*time.Millisecond)); wait != 0 {
		t.Errorf("ten repairs a second: waits %s", wait)
	}
}

// However low the rate, a repair a second must be possible, and bursts below one must not stop everything.
func TestPacerOfSmallNumbers(t *testing.T) {
	p := newPacer(0.01, 0)
	if p.admit(named("a"), false, start) != 0 || p.admit(named("b"), false, start) != 100*time.Second {
		t.Error("a burst below one does not count as one")
	}
	if p.admit(named("c"), true, start) != 0 || p.admit(named("d"), true, start.Add(time.Second)) != 0 {
		t.Error("less than one repair per second")
	}
}

func TestPacerForgets(t *testing.T) {
	p := newPacer(1, 1)
	p.admit(named("a"), false, start)
	p.admit(named("b"), false, start)
	p.forget(named("b"))
	if len(p.slots) != 0 {
		t.Errorf("slots %v", p.slots)
	}
	if wait := p.admit(named("b"), false, start); wait != 2*time.Second {
		t.Errorf("a Machine of the same name asks anew and waits %s", wait)
	}
}

var taintOfNode = fightKey{target: plan.OnNode, object: "n1", kind: ownership.Taint, key: "a:NoSchedule"}

func TestFightNeedsSeveralRepairsInAShortTime(t *testing.T) {
	f := newFights()
	for i := range fightThreshold - 1 {
		if f.repaired(taintOfNode, start.Add(time.Duration(i)*time.Second)) {
			t.Fatalf("repair %d is a fight", i+1)
		}
	}
	other := taintOfNode
	other.key = "b:NoSchedule"
	if f.repaired(other, start) {
		t.Error("repairs of different keys are counted together")
	}
	if !f.withheld(taintOfNode, start).IsZero() {
		t.Error("withheld before it is a fight")
	}
	if f.repaired(taintOfNode, start.Add(fightWindow+fightThreshold*time.Second)) {
		t.Error("a repair after the window is a fight")
	}
	if !f.any() {
		t.Error("there are counts")
	}
}

// Another writer need not be fast: one that comes by every few minutes never ends either. Who edits by hand now and then is none.
func TestFightsMayBeSlow(t *testing.T) {
	for gap, fight := range map[time.Duration]bool{15 * time.Second: true, 5 * time.Minute: true, fightWindow: true, fightWindow + time.Second: false} {
		f, found := newFights(), 0
		for i := range 20 {
			if f.repaired(taintOfNode, start.Add(time.Duration(i)*gap)) {
				found++
			}
		}
		if want := map[bool]int{true: 20 - fightThreshold + 1}[fight]; found != want {
			t.Errorf("every %s: %d rounds, want %d", gap, found, want)
		}
	}
}

// fightOnce makes the repairs that begin a fight.
func fightOnce(f *fights, now time.Time) bool {
	begun := false
	for range fightThreshold {
		begun = f.repaired(taintOfNode, now)
	}
	return begun
}

func TestFightPausesAndDoubles(t *testing.T) {
	f := newFights()
	now, pause := start, fightPause
	if !fightOnce(f, now) {
		t.Fatal("no fight")
	}
	for range 8 {
		if until := f.withheld(taintOfNode, now); until != now.Add(pause) {
			t.Fatalf("withheld for %s, want %s", until.Sub(now), pause)
		}
		if !f.withheld(taintOfNode, now.Add(pause)).IsZero() {
			t.Fatal("withheld longer than the pause")
		}
		// The other writer is still there: the first repair after the pause begins the next one.
		now = now.Add(pause)
		if !f.repaired(taintOfNode, now) {
			t.Fatal("the fight goes on unnoticed")
		}
		pause = min(2*pause, maxFightPause)
	}
	if pause != maxFightPause {
		t.Errorf("the pause ends at %s", pause)
	}
	if now = now.Add(fightWindow + 2*pause + time.Second); f.repaired(taintOfNode, now) {
		t.Error("peace is never made")
	}
	for range fightThreshold - 1 {
		f.repaired(taintOfNode, now)
	}
	if f.withheld(taintOfNode, now) != now.Add(fightPause) {
		t.Error("a new fight does not begin with the first pause")
	}
}

func TestFightsAreForgottenWithTheirObject(t *testing.T) {
	f := newFights()
	onMachine := taintOfNode
	onMachine.target = plan.OnMachine
	fightOnce(f, start)
	f.repaired(onMachine, start)
	f.forget(plan.OnNode, "n2")
	if f.withheld(taintOfNode, start).IsZero() {
		t.Error("another Node's counts are gone")
	}
	f.forget(plan.OnNode, "n1")
	if !f.withheld(taintOfNode, start).IsZero() || !f.any() {
		t.Error("the Node's counts are to go, the Machine's of the same name to stay")
	}
	f.forget(plan.OnMachine, "n1")
	if f.any() {
		t.Error("counts are left")
	}
}
