package healthcheck

import (
	"math"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const set = types.UID("uid-of-set")

func TestWaitsDoubleUpToAnHour(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 6: 32 * time.Minute, 7: time.Hour, 8: time.Hour, 1000: time.Hour,
	} {
		if got := (round{failures: failures}).wait(); got != want {
			t.Errorf("after %d: %s, want %s", failures, got, want)
		}
	}
}

// One Machine after another fails: each replacement waits for longer than the one before.
func TestAChainOfFailures(t *testing.T) {
	var r round
	created, now := start.Add(-time.Hour), start.Add(300*time.Millisecond)
	for _, want := range []time.Duration{0, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute,
		time.Hour, time.Hour} {
		until := r.holds(false, created)
		if want == 0 && !until.IsZero() || want > 0 && until.Sub(now) != want {
			t.Fatalf("round %d: until %s at %s, want %s", r.failures, until, now, want)
		}
		now = now.Add(want)
		r = r.after(created, now)
		// Its replacement is made in the same second; the API server keeps no fractions.
		created = now.Truncate(time.Second)
	}
}

// Ten that were made together fail together: they are one round, and replaced without a wait in between.
func TestAPoolThatFailsTogetherIsOneRound(t *testing.T) {
	var r round
	created := start.Add(-15 * time.Minute)
	for i := range 10 {
		now := start.Add(time.Duration(i) * time.Second)
		if until := r.holds(false, created); !until.IsZero() {
			t.Fatalf("the one of number %d waits until %s", i, until)
		}
		r = r.after(created, now)
	}
	if r.failures != 1 || r.last != start.Add(9*time.Second) || r.began != start {
		t.Errorf("%+v", r)
	}
	if until := r.holds(false, start.Add(5*time.Second)); until != r.last.Add(time.Minute) {
		t.Errorf("a replacement waits until %s", until)
	}
	if until := r.holds(true, created); !until.IsZero() {
		t.Errorf("no replacement has failed yet, and one that had come up waits until %s", until)
	}
	r = r.after(start.Add(5*time.Second), start.Add(2*time.Minute))
	if until := r.holds(true, created); until != start.Add(4*time.Minute) {
		t.Errorf("replacements fail, and one that had come up waits until %s", until)
	}
}

func TestWhatIsAFailedStart(t *testing.T) {
	for name, c := range map[string]struct {
		finding finding
		age     time.Duration
		started bool
	}{
		"never had a node":       {foundLate, time.Hour, false},
		"failed young":           {foundFailed, time.Minute, false},
		"failed after hours":     {foundFailed, youth + 11*time.Minute, true},
		"no node for hours":      {foundLate, youth + 11*time.Minute, true},
		"its node is gone":       {foundNodeGone, time.Minute, true},
		"its node is not ready":  {foundUnhealthy, time.Minute, true},
		"at the limit, a moment": {foundFailed, youth + 10*time.Minute, false},
	} {
		machine := machineOf("m1", "")
		machine.CreationTimestamp = metav1.NewTime(start.Add(-c.age))
		in := judging()
		if got := in.started(&target{machine: machine}, verdict{finding: c.finding}); got != c.started {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The sum of the longest timeout and the time after it must not overflow: every Machine would count as one that had come up.
func TestStarted_TimeoutOutOfRange(t *testing.T) {
	machine := machineOf("m1", "")
	machine.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
	in := judging()
	in.check.Spec.NodeStartupTimeout = &metav1.Duration{Duration: math.MaxInt64}
	if in.started(&target{machine: machine}, verdict{finding: foundFailed}) {
		t.Error("a Machine that failed after a minute counts as started")
	}
	if (round{last: start}).over(start.Add(time.Hour), startupTimeout(in.check)) {
		t.Error("its failure is forgotten at once")
	}
}

func TestHistory(t *testing.T) {
	known := round{failures: 3, began: start.Add(-10 * time.Minute), last: start.Add(-9 * time.Minute)}
	past := round{failures: 3, last: start.Add(-3 * time.Hour)}
	made := func(age time.Duration, targets []target) []target {
		for i := range targets {
			targets[i].machine.CreationTimestamp = metav1.NewTime(start.Add(-age))
		}
		return targets
	}
	leaving := func(age time.Duration, node bool) []target {
		targets := made(age, pool("d"))
		if !node {
			targets[0].machine.Status.NodeRef = nil
		}
		return targets
	}
	for name, c := range map[string]struct {
		targets   []target
		rounds    map[types.UID]round
		want      int
		recovered bool
	}{
		"nothing is known":                       {targets: pool("uw")},
		"from memory":                            {targets: made(time.Hour, pool("uw")), rounds: map[types.UID]round{set: known}, want: 3},
		"a replacement is healthy":               {targets: made(time.Minute, pool("w")), rounds: map[types.UID]round{set: known}, recovered: true},
		"a replacement is not healthy":           {targets: made(time.Minute, pool("s")), rounds: map[types.UID]round{set: known}, want: 3},
		"a replacement starts":                   {targets: pool("y"), rounds: map[types.UID]round{set: known}, want: 3},
		"long ago":                               {targets: made(time.Hour, pool("u")), rounds: map[types.UID]round{set: past}, recovered: true},
		"nobody's":                               {targets: orphans(pool("uw")), rounds: map[types.UID]round{set: known}, want: 3},
		"after a restart, one is on its way out": {targets: slices.Concat(leaving(20*time.Minute, false), pool("n")), want: 1},
		"after a restart, one had a node":        {targets: slices.Concat(leaving(20*time.Minute, true), pool("n"))},
		"after a restart, one was old":           {targets: slices.Concat(leaving(5*time.Hour, false), pool("n"))},
		"memory knows better":                    {targets: leaving(20*time.Minute, false), rounds: map[types.UID]round{set: known}, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			in := judging()
			in.targets, in.rounds = c.targets, c.rounds
			rounds, recovered := in.history()
			if rounds[set].failures != c.want || slices.Contains(recovered, set) != c.recovered {
				t.Errorf("%+v, recovered %v", rounds[set], recovered)
			}
		})
	}
}

func orphans(targets []target) []target {
	for i := range targets {
		targets[i].machine.OwnerReferences = nil
	}
	return targets
}

// Several that are on their way out are one round, from the first deletion to the last.
func TestARoundIsReadFromWhatIsLeft(t *testing.T) {
	in := judging()
	in.targets = pool("ddd")
	for i, age := range []time.Duration{30 * time.Second, 50 * time.Second, 40 * time.Second} {
		in.targets[i].machine.Status.NodeRef = nil
		in.targets[i].machine.DeletionTimestamp = &metav1.Time{Time: start.Add(-age)}
	}
	want := round{failures: 1, began: start.Add(-50 * time.Second), last: start.Add(-30 * time.Second)}
	if rounds, _ := in.history(); rounds[set] != want {
		t.Errorf("%+v", rounds[set])
	}
}

func TestOwnersAreForgotten(t *testing.T) {
	o := newOwners()
	o.failed("a", round{}, start, start)
	o.failed("b", round{}, start, start.Add(24*time.Hour))
	o.recovered([]types.UID{"c"})
	o.expire(start.Add(27 * time.Hour))
	if len(o.rounds) != 1 || o.rounds["b"].failures != 1 {
		t.Errorf("%v", o.rounds)
	}
	o.recovered([]types.UID{"b"})
	if len(o.rounds) != 0 {
		t.Errorf("%v", o.rounds)
	}
}
