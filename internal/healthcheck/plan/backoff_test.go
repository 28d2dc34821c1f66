package plan

import (
	"math"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestStartFailures_DelayDoublesUpToAnHour(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 6: 32 * time.Minute, 7: time.Hour, 8: time.Hour, 1000: time.Hour,
	} {
		if got := (StartFailures{Rounds: failures}).delay(); got != want {
			t.Errorf("after %d: %s, want %s", failures, got, want)
		}
	}
}

// One Machine after another fails: each replacement is delayed for longer than the one before.
func TestStartFailures_ReplacementsFail(t *testing.T) {
	var f StartFailures
	created, now := start.Add(-time.Hour), start.Add(300*time.Millisecond)
	for _, want := range []time.Duration{0, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute,
		time.Hour, time.Hour} {
		until := f.until(false, created)
		if want == 0 && !until.IsZero() || want > 0 && until.Sub(now) != want {
			t.Fatalf("round %d: until %s at %s, want %s", f.Rounds, until, now, want)
		}
		now = now.Add(want)
		f = f.Next(created, now)
		// Its replacement is created in the same second; the API server keeps no fractions.
		created = now.Truncate(time.Second)
	}
}

// Ten Machines that were created together fail together: they are one round, and are replaced without a delay in between.
func TestStartFailures_OneRound(t *testing.T) {
	var f StartFailures
	created := start.Add(-15 * time.Minute)
	for i := range 10 {
		now := start.Add(time.Duration(i) * time.Second)
		if until := f.until(false, created); !until.IsZero() {
			t.Fatalf("Machine %d is delayed until %s", i, until)
		}
		f = f.Next(created, now)
	}
	if f.Rounds != 1 || f.Last != start.Add(9*time.Second) || f.First != start {
		t.Errorf("%+v", f)
	}
	if until := f.until(false, start.Add(5*time.Second)); until != f.Last.Add(time.Minute) {
		t.Errorf("a replacement is delayed until %s", until)
	}
	if until := f.until(true, created); !until.IsZero() {
		t.Errorf("no replacement has failed yet, and one that had started is delayed until %s", until)
	}
	f = f.Next(start.Add(5*time.Second), start.Add(2*time.Minute))
	if until := f.until(true, created); until != start.Add(4*time.Minute) {
		t.Errorf("replacements fail, and one that had started is delayed until %s", until)
	}
}

func TestStarted(t *testing.T) {
	for name, c := range map[string]struct {
		health  Health
		age     time.Duration
		started bool
	}{
		"never had a node":       {NodeStartupTimedOut, time.Hour, false},
		"failed young":           {Failed, time.Minute, false},
		"failed after hours":     {Failed, startWindow + 11*time.Minute, true},
		"no node for hours":      {NodeStartupTimedOut, startWindow + 11*time.Minute, true},
		"its node is gone":       {NodeNotFound, time.Minute, true},
		"its node is not ready":  {Unhealthy, time.Minute, true},
		"at the limit, a moment": {Failed, startWindow + 10*time.Minute, false},
	} {
		machine := newMachine("m1", "")
		machine.CreationTimestamp = metav1.NewTime(start.Add(-c.age))
		in := newInput()
		if got := in.started(&Target{Machine: machine}, Assessment{Health: c.health}); got != c.started {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The sum of the longest timeout and the time after it must not overflow: otherwise every Machine would count as started.
func TestStarted_TimeoutOutOfRange(t *testing.T) {
	machine := newMachine("m1", "")
	machine.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
	in := newInput()
	in.Check.Spec.NodeStartupTimeout = &metav1.Duration{Duration: math.MaxInt64}
	if in.started(&Target{Machine: machine}, Assessment{Health: Failed}) {
		t.Error("a Machine that failed after a minute counts as started")
	}
	if (StartFailures{Last: start}).Expired(start.Add(time.Hour), startupTimeout(in.Check)) {
		t.Error("its failure is forgotten at once")
	}
}

func TestFailures(t *testing.T) {
	known := StartFailures{Rounds: 3, First: start.Add(-10 * time.Minute), Last: start.Add(-9 * time.Minute)}
	past := StartFailures{Rounds: 3, Last: start.Add(-3 * time.Hour)}
	created := func(age time.Duration, targets []Target) []Target {
		for i := range targets {
			targets[i].Machine.CreationTimestamp = metav1.NewTime(start.Add(-age))
		}
		return targets
	}
	deleting := func(age time.Duration, node bool) []Target {
		targets := created(age, newTargets("d"))
		if !node {
			targets[0].Machine.Status.NodeRef = nil
		}
		return targets
	}
	for name, c := range map[string]struct {
		targets   []Target
		failures  map[types.UID]StartFailures
		want      int
		recovered bool
	}{
		"nothing is known":                      {targets: newTargets("uw")},
		"remembered":                            {targets: created(time.Hour, newTargets("uw")), failures: remembered(known), want: 3},
		"a replacement is healthy":              {targets: created(time.Minute, newTargets("w")), failures: remembered(known), recovered: true},
		"a replacement is not healthy":          {targets: created(time.Minute, newTargets("s")), failures: remembered(known), want: 3},
		"a replacement starts":                  {targets: newTargets("y"), failures: remembered(known), want: 3},
		"long ago":                              {targets: created(time.Hour, newTargets("u")), failures: remembered(past), recovered: true},
		"no owner":                              {targets: orphans(newTargets("uw")), failures: remembered(known), want: 3},
		"after a restart, one is being deleted": {targets: slices.Concat(deleting(20*time.Minute, false), newTargets("n")), want: 1},
		"after a restart, one had a node":       {targets: slices.Concat(deleting(20*time.Minute, true), newTargets("n"))},
		"after a restart, one was old":          {targets: slices.Concat(deleting(5*time.Hour, false), newTargets("n"))},
		"remembered and one is being deleted":   {targets: deleting(20*time.Minute, false), failures: remembered(known), want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput()
			in.Targets, in.Failures = c.targets, c.failures
			failures, recovered := in.failures(assessAll(in))
			if failures[owner].Rounds != c.want || slices.Contains(recovered, owner) != c.recovered {
				t.Errorf("%+v, recovered %v", failures[owner], recovered)
			}
		})
	}
}

func remembered(failures StartFailures) map[types.UID]StartFailures {
	return map[types.UID]StartFailures{owner: failures}
}

func orphans(targets []Target) []Target {
	for i := range targets {
		targets[i].Machine.OwnerReferences = nil
	}
	return targets
}

// Several Machines that are being deleted are one round, from the first deletion to the last.
func TestFailures_SeveralBeingDeleted(t *testing.T) {
	in := newInput()
	in.Targets = newTargets("ddd")
	for i, age := range []time.Duration{30 * time.Second, 50 * time.Second, 40 * time.Second} {
		in.Targets[i].Machine.Status.NodeRef = nil
		in.Targets[i].Machine.DeletionTimestamp = &metav1.Time{Time: start.Add(-age)}
	}
	want := StartFailures{Rounds: 1, First: start.Add(-50 * time.Second), Last: start.Add(-30 * time.Second)}
	if failures, _ := in.failures(assessAll(in)); failures[owner] != want {
		t.Errorf("%+v", failures[owner])
	}
}

func assessAll(in *Input) []Assessment {
	assessments := make([]Assessment, len(in.Targets))
	for i := range in.Targets {
		assessments[i] = in.assess(&in.Targets[i])
	}
	return assessments
}
