package metadata

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// start is when the process of every test starts.
var start = time.Unix(1_700_000_000, 0)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "machines", Name: name}
}

func declarationAt(name, revision string) *plan.Declaration {
	return &plan.Declaration{Key: named(name), Revision: revision}
}

// trackerFixture is a tracker with the registry that its gauges are read from.
type trackerFixture struct {
	*tracker
	registry *prometheus.Registry
}

type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newTrackerFixture(t reporter) *trackerFixture {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return &trackerFixture{newTracker(metrics, start), registry}
}

// gauges reads the gauge of nodes as "MachineSet/state=count", zeros left out.
func (f *trackerFixture) gauges(t reporter) string {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range families {
		if family.GetName() != "drover_metadata_nodes" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if value := metric.GetGauge().GetValue(); value != 0 {
				out = append(out, fmt.Sprintf("%s/%s=%v", labels["machineset"], labels["state"], value))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (f *trackerFixture) report(machine string, declaration *plan.Declaration, state plan.State, edit ...func(*report)) transition {
	r := report{machine: named(machine), declaration: declaration, state: state}
	for _, change := range edit {
		change(&r)
	}
	return f.record(r, start.Add(time.Minute))
}

func wrote(r *report)      { r.wrote = true }
func waiting(r *report)    { r.waiting = true }
func unfinished(r *report) { r.unfinished = true }

func problem(key string, reason plan.Reason) func(*report) {
	return func(s *report) {
		s.problems = append(s.problems, plan.Problem{Kind: ownership.Label, Key: key, Reason: reason})
	}
}

func members(machines ...string) []types.NamespacedName {
	var out []types.NamespacedName
	for _, machine := range machines {
		out = append(out, named(machine))
	}
	return out
}

func TestTracker_FirstReportAndChangedState(t *testing.T) {
	f := newTrackerFixture(t)
	declaration := declarationAt("a", "1")
	for _, c := range []struct {
		name           string
		changes        transition
		first, changed bool
	}{
		{"never reported", f.report("m", declaration, plan.Pending, unfinished), true, true},
		{"reported, but without its problems", f.report("m", declaration, plan.Pending), true, false},
		{"reported", f.report("m", declaration, plan.Pending), false, false},
		{"loses its Node", f.report("m", declaration, plan.Pending, waiting), false, true},
		{"another state", f.report("m", declaration, plan.Synced), false, true},
		{"another MachineSet", f.report("m", declarationAt("b", "1"), plan.Synced), true, false},
		{"no MachineSet", f.report("m", nil, plan.Synced), false, false},
		{"joins a MachineSet", f.report("m", declaration, plan.Synced), true, true},
	} {
		if c.changes.first != c.first || c.changes.changed != c.changed {
			t.Errorf("%s: first %v, changed %v", c.name, c.changes.first, c.changes.changed)
		}
	}
}

func TestTracker_ReportsEachProblemOnce(t *testing.T) {
	f := newTrackerFixture(t)
	declaration := declarationAt("a", "1")
	conflict, refused := problem("team", plan.InConflict), problem("os", plan.Refused)
	for _, c := range []struct {
		name             string
		changes          transition
		onMachine, inSet int
	}{
		{"the first Machine with two problems", f.report("m1", declaration, plan.Conflicted, conflict, refused), 2, 2},
		{"again", f.report("m1", declaration, plan.Conflicted, conflict, refused), 0, 0},
		{"another Machine with the same", f.report("m2", declaration, plan.Conflicted, conflict, refused), 2, 0},
		{"the same in another MachineSet", f.report("m9", declarationAt("b", "1"), plan.Conflicted, conflict), 1, 1},
		{"one ends on one Machine", f.report("m1", declaration, plan.RefusedState, refused), 0, 0},
		{"and is back there", f.report("m1", declaration, plan.Conflicted, conflict, refused), 1, 0},
		{"a reconciliation that waits for its turn reports nothing", f.report("m1", declaration, plan.Pending, unfinished), 0, 0},
		{"and forgets nothing", f.report("m1", declaration, plan.Conflicted, conflict, refused), 0, 0},
		{"it ends everywhere", f.report("m1", declaration, plan.Synced), 0, 0},
		{"", f.report("m2", declaration, plan.Synced), 0, 0},
		{"so it is new when it is back", f.report("m2", declaration, plan.Conflicted, conflict), 1, 1},
		{"another reason is another problem", f.report("m2", declaration, plan.Held, problem("team", plan.Contended)), 1, 1},
	} {
		if len(c.changes.onMachine) != c.onMachine || len(c.changes.inSet) != c.inSet {
			t.Errorf("%s: %d on the Machine, %d in the MachineSet", c.name, len(c.changes.onMachine), len(c.changes.inSet))
		}
	}
}

func TestTracker_ReportsTheEndOfARolloutOnce(t *testing.T) {
	f := newTrackerFixture(t)
	declaration := declarationAt("a", "1")
	f.startRollout(declaration, members("m1", "m2", "m3"), start, start)
	for _, step := range []struct {
		name      string
		changes   transition
		completed bool
	}{
		{"the first", f.report("m1", declaration, plan.Synced, wrote), false},
		{"the second has to wait for its turn", f.report("m2", declaration, plan.Pending, unfinished), false},
		{"the third is synced already", f.report("m3", declaration, plan.Synced), false},
		{"the second's turn", f.report("m2", declaration, plan.Synced, wrote), true},
		{"it has been reported", f.report("m2", declaration, plan.Synced, wrote), false},
	} {
		if step.changes.completed != step.completed {
			t.Errorf("%s: completed is %v", step.name, step.changes.completed)
		}
	}
	f.startRollout(declaration, members("m1", "m2", "m3"), start, start)
	if f.report("m1", declaration, plan.Synced, wrote).completed {
		t.Error("the end of the same revision is reported again")
	}
	next := declarationAt("a", "2")
	f.startRollout(next, members("m1", "m2"), start, start.Add(30*time.Second))
	f.report("m3", next, plan.Held)
	f.report("m1", next, plan.Conflicted, wrote)
	if f.report("m2", declaration, plan.Synced, wrote).completed {
		t.Error("a reconciliation of the old revision counts for the new one")
	}
	end := f.report("m2", next, plan.Synced, wrote)
	if !end.completed || end.total != 3 || end.conflicts != 1 || end.held != 1 || end.waiting != 0 || end.took != 30*time.Second {
		t.Errorf("the end of the second rollout: %+v", end)
	}
}

func TestTracker_RolloutIsComplete(t *testing.T) {
	for name, c := range map[string]struct {
		play      func(*trackerFixture, *plan.Declaration) transition
		completed bool
	}{
		"nothing was written": {func(f *trackerFixture, p *plan.Declaration) transition {
			f.report("m1", p, plan.Synced)
			return f.report("m2", p, plan.Synced)
		}, false},
		"a Machine without a Node is not waited for": {func(f *trackerFixture, p *plan.Declaration) transition {
			f.report("m1", p, plan.Pending, waiting, wrote)
			return f.report("m2", p, plan.Synced)
		}, true},
		"a Machine with a conflict that waits for its turn is waited for": {func(f *trackerFixture, p *plan.Declaration) transition {
			f.report("m1", p, plan.Conflicted, unfinished)
			return f.report("m2", p, plan.Synced, wrote)
		}, false},
		"a Machine whose write is denied is not waited for": {func(f *trackerFixture, p *plan.Declaration) transition {
			f.report("m1", p, plan.Held, unfinished)
			return f.report("m2", p, plan.Synced, wrote)
		}, true},
		"a Machine that is deleted is not waited for": {func(f *trackerFixture, p *plan.Declaration) transition {
			f.forgetMachine(named("m1"))
			return f.report("m2", p, plan.Synced, wrote)
		}, true},
		"a Machine that leaves the MachineSet is not waited for": {func(f *trackerFixture, p *plan.Declaration) transition {
			f.report("m1", nil, plan.Synced)
			return f.report("m2", p, plan.Synced, wrote)
		}, true},
		"a Machine that joins late is waited for": {func(f *trackerFixture, p *plan.Declaration) transition {
			f.report("m3", p, plan.Pending, unfinished)
			f.report("m1", p, plan.Synced)
			return f.report("m2", p, plan.Synced, wrote)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTrackerFixture(t)
			declaration := declarationAt("a", "1")
			f.startRollout(declaration, members("m1", "m2"), start, start)
			if got := c.play(f, declaration); got.completed != c.completed {
				t.Errorf("%+v", got)
			}
		})
	}
}

// How long a rollout took, and whether its problems are new, depends on whether its start was observed.
func TestTracker_StartOf(t *testing.T) {
	f := newTrackerFixture(t)
	later := start.Add(time.Hour)
	f.startRollout(declarationAt("old", "1"), nil, start.Add(-time.Hour), later)
	f.startRollout(declarationAt("new", "1"), nil, start.Add(time.Minute), later)
	if !f.startOf(named("old")).IsZero() || !f.startOf(named("new")).Equal(later) || !f.startOf(named("unknown")).IsZero() {
		t.Errorf("old %v, new %v", f.startOf(named("old")), f.startOf(named("new")))
	}
	f.startRollout(declarationAt("old", "2"), nil, start.Add(-time.Hour), later)
	if !f.startOf(named("old")).Equal(later) {
		t.Error("a change of a MachineSet that existed before is not observed")
	}
	if !f.knows(named("old")) || f.knows(named("unknown")) {
		t.Error("knows is wrong")
	}
	f.report("m", declarationAt("joined", "1"), plan.Synced)
	if f.knows(named("joined")) {
		t.Error("a MachineSet of which only a Machine was reported is known")
	}
}

func TestTracker_WasWritten(t *testing.T) {
	f := newTrackerFixture(t)
	m := named("m")
	if f.wasWritten(plan.OnMachine, m, "1") || f.wasWritten(plan.OnMachine, m, "") {
		t.Error("a Machine that was never written counts as written")
	}
	f.recordWrite(plan.OnMachine, m, "1")
	if f.report("m", declarationAt("a", "1"), plan.Synced); !f.wasWritten(plan.OnMachine, m, "1") || f.wasWritten(plan.OnMachine, m, "2") {
		t.Error("the revision of the first write is not remembered")
	}
	f.forgetMachine(m)
	if f.wasWritten(plan.OnMachine, m, "1") {
		t.Error("a Machine that is gone is remembered")
	}
	f.recordWrite(plan.OnNode, m, "n1/1")
	if !f.wasWritten(plan.OnNode, m, "n1/1") || f.wasWritten(plan.OnNode, m, "n2/1") || f.wasWritten(plan.OnNode, named("m2"), "n1/1") {
		t.Error("what was written to which Node is not remembered")
	}
	if f.forgetMachine(m); f.wasWritten(plan.OnNode, m, "n1/1") {
		t.Error("a Node whose Machine is gone is remembered")
	}
}

func TestTracker_SeriesEndWithTheirMachineSet(t *testing.T) {
	f := newTrackerFixture(t)
	f.report("m1", declarationAt("a", "1"), plan.Synced)
	f.report("m2", declarationAt("b", "1"), plan.Held)
	f.forgetSet(named("a"))
	f.forgetMachine(named("m1"))
	if got := f.gauges(t); got != "b/held=1" {
		t.Errorf("gauges %s", got)
	}
	f.metrics.reset()
	if got := f.gauges(t); got != "" {
		t.Errorf("gauges after the controller stopped: %s", got)
	}
}

// count counts every Machine again, as the simplest implementation would.
func count(machines map[string]report) string {
	counts := map[string]int{}
	for _, s := range machines {
		counts[s.declaration.Key.Name+"/"+string(s.state)]++
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s=%d", key, counts[key]))
	}
	return strings.Join(out, " ")
}

func TestTracker_GaugesEqualACountOfAllMachines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, machines := newTrackerFixture(t), map[string]report{}
		revisions, reported := map[string]int{"a": 1, "b": 1}, map[string]bool{}
		machine, set := rapid.SampledFrom([]string{"m1", "m2", "m3", "m4"}), rapid.SampledFrom([]string{"a", "b"})
		current := func(name string) *plan.Declaration { return declarationAt(name, fmt.Sprint(revisions[name])) }
		f.startRollout(current("a"), members("m1", "m2"), start, start)
		t.Repeat(map[string]func(*rapid.T){
			"reconciliation": func(t *rapid.T) {
				name := machine.Draw(t, "machine")
				s := report{machine: named(name), state: rapid.SampledFrom(plan.States).Draw(t, "state"), wrote: rapid.Bool().Draw(t, "wrote")}
				s.waiting = s.state == plan.Pending && rapid.Bool().Draw(t, "waiting")
				s.unfinished = rapid.Bool().Draw(t, "unfinished")
				if s.declaration = current(set.Draw(t, "MachineSet")); rapid.IntRange(0, 9).Draw(t, "no MachineSet") == 0 {
					s.declaration = nil
				}
				if machines[name] = s; s.declaration == nil {
					delete(machines, name)
				}
				if out := f.record(s, start); out.completed {
					checkCompleted(t, out, machines, s, reported)
				}
			},
			"change": func(t *rapid.T) {
				name := set.Draw(t, "MachineSet")
				revisions[name]++
				f.startRollout(current(name), members(rapid.SliceOfDistinct(machine, rapid.ID).Draw(t, "members")...), start, start)
			},
			"Machine gone": func(t *rapid.T) {
				name := machine.Draw(t, "machine")
				delete(machines, name)
				f.forgetMachine(named(name))
			},
			"MachineSet gone": func(t *rapid.T) {
				name := set.Draw(t, "MachineSet")
				maps.DeleteFunc(machines, func(_ string, s report) bool { return s.declaration.Key.Name == name })
				f.forgetSet(named(name))
				revisions[name]++
			},
			"": func(t *rapid.T) {
				if got, want := f.gauges(t), count(machines); got != want {
					t.Fatalf("gauges %s, counted %s", got, want)
				}
			},
		})
	})
}

// checkCompleted counts again what the end of a rollout reports.
func checkCompleted(t *rapid.T, out transition, machines map[string]report, last report, reported map[string]bool) {
	revision := last.declaration.Key.Name + "/" + last.declaration.Revision
	if reported[revision] {
		t.Fatalf("the end of %s is reported twice", revision)
	}
	reported[revision] = true
	total, states, waits := 0, map[plan.State]int{}, 0
	for _, s := range machines {
		if s.declaration.Key != last.declaration.Key {
			continue
		}
		total++
		states[s.state]++
		if s.waiting {
			waits++
		}
	}
	if out.total != total || out.conflicts != states[plan.Conflicted] || out.held != states[plan.Held] || out.waiting != waits ||
		states[plan.Pending] > waits {
		t.Fatalf("reported %+v; counted %d Machines, %v, %d waiting", out, total, states, waits)
	}
}
