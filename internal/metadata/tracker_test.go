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

// start is when the process of every test began.
var start = time.Unix(1_700_000_000, 0)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "machines", Name: name}
}

func poolAt(name, revision string) *plan.Declaration {
	return &plan.Declaration{Key: named(name), Revision: revision}
}

// book is a ledger with the registry that its gauges are read from.
type book struct {
	*ledger
	registry *prometheus.Registry
}

type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newBook(t reporter) *book {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return &book{newLedger(metrics, start), registry}
}

// gauges reads the gauge of nodes as "pool/state=count", zeros left out.
func (b *book) gauges(t reporter) string {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, family := range families {
		if family.GetName() != nodesDoc.Name {
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

func (b *book) saw(machine string, pool *plan.Declaration, state plan.State, edit ...func(*sight)) news {
	s := sight{machine: named(machine), pool: pool, state: state}
	for _, change := range edit {
		change(&s)
	}
	return b.record(s, start.Add(time.Minute))
}

func wrote(s *sight)      { s.wrote = true }
func waiting(s *sight)    { s.waiting = true }
func unfinished(s *sight) { s.unfinished = true }

func problem(key string, reason plan.Reason) func(*sight) {
	return func(s *sight) {
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

func TestLedgerKnowsWhatIsFirstAndWhatMoved(t *testing.T) {
	b := newBook(t)
	pool := poolAt("a", "1")
	for _, c := range []struct {
		name         string
		news         news
		first, moved bool
	}{
		{"never seen", b.saw("m", pool, plan.Pending, unfinished), true, true},
		{"seen, but nothing could be told yet", b.saw("m", pool, plan.Pending), true, false},
		{"seen and told", b.saw("m", pool, plan.Pending), false, false},
		{"loses its Node", b.saw("m", pool, plan.Pending, waiting), false, true},
		{"another state", b.saw("m", pool, plan.Synced), false, true},
		{"another pool", b.saw("m", poolAt("b", "1"), plan.Synced), true, false},
		{"no pool", b.saw("m", nil, plan.Synced), false, false},
		{"from nowhere into a pool", b.saw("m", pool, plan.Synced), true, true},
	} {
		if c.news.first != c.first || c.news.moved != c.moved {
			t.Errorf("%s: first %v, moved %v", c.name, c.news.first, c.news.moved)
		}
	}
}

func TestLedgerTellsProblemsOnce(t *testing.T) {
	b := newBook(t)
	pool := poolAt("a", "1")
	conflict, refused := problem("team", plan.InConflict), problem("os", plan.Refused)
	for _, c := range []struct {
		name             string
		news             news
		onMachine, inAll int
	}{
		{"the first Machine with two problems", b.saw("m1", pool, plan.Conflicted, conflict, refused), 2, 2},
		{"again", b.saw("m1", pool, plan.Conflicted, conflict, refused), 0, 0},
		{"another Machine with the same", b.saw("m2", pool, plan.Conflicted, conflict, refused), 2, 0},
		{"the same in another pool", b.saw("m9", poolAt("b", "1"), plan.Conflicted, conflict), 1, 1},
		{"one ends on one Machine", b.saw("m1", pool, plan.RefusedState, refused), 0, 0},
		{"and comes back there", b.saw("m1", pool, plan.Conflicted, conflict, refused), 1, 0},
		{"a pass that waits for its turn says nothing", b.saw("m1", pool, plan.Pending, unfinished), 0, 0},
		{"and forgets nothing", b.saw("m1", pool, plan.Conflicted, conflict, refused), 0, 0},
		{"it ends everywhere", b.saw("m1", pool, plan.Synced), 0, 0},
		{"", b.saw("m2", pool, plan.Synced), 0, 0},
		{"so its return is news", b.saw("m2", pool, plan.Conflicted, conflict), 1, 1},
		{"another reason is another problem", b.saw("m2", pool, plan.Held, problem("team", plan.Fighting)), 1, 1},
	} {
		if len(c.news.machine) != c.onMachine || len(c.news.pool) != c.inAll {
			t.Errorf("%s: %d on the Machine, %d in the pool", c.name, len(c.news.machine), len(c.news.pool))
		}
	}
}

func TestLedgerTellsTheEndOfARollOutOnce(t *testing.T) {
	b := newBook(t)
	pool := poolAt("a", "1")
	b.poolSeen(pool, members("m1", "m2", "m3"), start, start)
	for _, step := range []struct {
		name     string
		news     news
		finished bool
	}{
		{"the first", b.saw("m1", pool, plan.Synced, wrote), false},
		{"the second has to wait for its turn", b.saw("m2", pool, plan.Pending, unfinished), false},
		{"the third is synced already", b.saw("m3", pool, plan.Synced), false},
		{"the second's turn", b.saw("m2", pool, plan.Synced, wrote), true},
		{"told is told", b.saw("m2", pool, plan.Synced, wrote), false},
	} {
		if step.news.finished != step.finished {
			t.Errorf("%s: finished is %v", step.name, step.news.finished)
		}
	}
	b.poolSeen(pool, members("m1", "m2", "m3"), start, start)
	if b.saw("m1", pool, plan.Synced, wrote).finished {
		t.Error("the same revision is told again")
	}
	next := poolAt("a", "2")
	b.poolSeen(next, members("m1", "m2"), start, start.Add(30*time.Second))
	b.saw("m3", next, plan.Held)
	b.saw("m1", next, plan.Conflicted, wrote)
	if b.saw("m2", pool, plan.Synced, wrote).finished {
		t.Error("a look at the old revision counts for the new one")
	}
	end := b.saw("m2", next, plan.Synced, wrote)
	if !end.finished || end.total != 3 || end.conflicts != 1 || end.held != 1 || end.waiting != 0 || end.took != 30*time.Second {
		t.Errorf("the end of the second roll-out: %+v", end)
	}
}

func TestLedgerRollOutsThatAreNotTold(t *testing.T) {
	for name, c := range map[string]struct {
		play     func(*book, *plan.Declaration) news
		finished bool
	}{
		"nothing was written": {func(b *book, p *plan.Declaration) news {
			b.saw("m1", p, plan.Synced)
			return b.saw("m2", p, plan.Synced)
		}, false},
		"a Machine without a Node is not waited for": {func(b *book, p *plan.Declaration) news {
			b.saw("m1", p, plan.Pending, waiting, wrote)
			return b.saw("m2", p, plan.Synced)
		}, true},
		"a Machine with a conflict that waits for its turn is": {func(b *book, p *plan.Declaration) news {
			b.saw("m1", p, plan.Conflicted, unfinished)
			return b.saw("m2", p, plan.Synced, wrote)
		}, false},
		"a Machine whose write is refused is not": {func(b *book, p *plan.Declaration) news {
			b.saw("m1", p, plan.Held, unfinished)
			return b.saw("m2", p, plan.Synced, wrote)
		}, true},
		"a Machine that goes is not": {func(b *book, p *plan.Declaration) news {
			b.gone(named("m1"))
			return b.saw("m2", p, plan.Synced, wrote)
		}, true},
		"a Machine that leaves the pool is not": {func(b *book, p *plan.Declaration) news {
			b.saw("m1", nil, plan.Synced)
			return b.saw("m2", p, plan.Synced, wrote)
		}, true},
		"a Machine that joins late is": {func(b *book, p *plan.Declaration) news {
			b.saw("m3", p, plan.Pending, unfinished)
			b.saw("m1", p, plan.Synced)
			return b.saw("m2", p, plan.Synced, wrote)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			pool := poolAt("a", "1")
			b.poolSeen(pool, members("m1", "m2"), start, start)
			if got := c.play(b, pool); got.finished != c.finished {
				t.Errorf("%+v", got)
			}
		})
	}
}

// How long a roll-out took, and whether its problems are news, depends on whether its begin was seen.
func TestLedgerSince(t *testing.T) {
	b := newBook(t)
	later := start.Add(time.Hour)
	b.poolSeen(poolAt("old", "1"), nil, start.Add(-time.Hour), later)
	b.poolSeen(poolAt("new", "1"), nil, start.Add(time.Minute), later)
	if !b.since(named("old")).IsZero() || !b.since(named("new")).Equal(later) || !b.since(named("unknown")).IsZero() {
		t.Errorf("old %v, new %v", b.since(named("old")), b.since(named("new")))
	}
	b.poolSeen(poolAt("old", "2"), nil, start.Add(-time.Hour), later)
	if !b.since(named("old")).Equal(later) {
		t.Error("a change of a pool that was there before is not seen")
	}
	if !b.known(named("old")) || b.known(named("unknown")) {
		t.Error("known is wrong")
	}
	b.saw("m", poolAt("met", "1"), plan.Synced)
	if b.known(named("met")) {
		t.Error("a pool of which only a Machine was seen is not known")
	}
}

func TestLedgerRewrites(t *testing.T) {
	b := newBook(t)
	m := named("m")
	if b.rewrites(plan.OnMachine, m, "1") || b.rewrites(plan.OnMachine, m, "") {
		t.Error("a Machine that was never written is rewritten")
	}
	b.wrote(plan.OnMachine, m, "1")
	if b.saw("m", poolAt("a", "1"), plan.Synced); !b.rewrites(plan.OnMachine, m, "1") || b.rewrites(plan.OnMachine, m, "2") {
		t.Error("the revision of the first write is not remembered")
	}
	b.gone(m)
	if b.rewrites(plan.OnMachine, m, "1") {
		t.Error("a Machine that is gone is remembered")
	}
	b.wrote(plan.OnNode, m, "n1/1")
	if !b.rewrites(plan.OnNode, m, "n1/1") || b.rewrites(plan.OnNode, m, "n2/1") || b.rewrites(plan.OnNode, named("m2"), "n1/1") {
		t.Error("what was written to which Node is not remembered")
	}
	if b.gone(m); b.rewrites(plan.OnNode, m, "n1/1") {
		t.Error("a Node whose Machine is gone is remembered")
	}
}

func TestSeriesDieWithTheirPool(t *testing.T) {
	b := newBook(t)
	b.saw("m1", poolAt("a", "1"), plan.Synced)
	b.saw("m2", poolAt("b", "1"), plan.Held)
	b.poolGone(named("a"))
	b.gone(named("m1"))
	if got := b.gauges(t); got != "b/held=1" {
		t.Errorf("gauges %s", got)
	}
	b.metrics.reset()
	if got := b.gauges(t); got != "" {
		t.Errorf("gauges after the controller stopped: %s", got)
	}
}

// count is the naive way: look at every Machine again.
func count(machines map[string]sight) string {
	counts := map[string]int{}
	for _, s := range machines {
		counts[s.pool.Key.Name+"/"+string(s.state)]++
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s=%d", key, counts[key]))
	}
	return strings.Join(out, " ")
}

func TestGaugesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, machines := newBook(t), map[string]sight{}
		revisions, told := map[string]int{"a": 1, "b": 1}, map[string]bool{}
		machine, pool := rapid.SampledFrom([]string{"m1", "m2", "m3", "m4"}), rapid.SampledFrom([]string{"a", "b"})
		current := func(name string) *plan.Declaration { return poolAt(name, fmt.Sprint(revisions[name])) }
		b.poolSeen(current("a"), members("m1", "m2"), start, start)
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				name := machine.Draw(t, "machine")
				s := sight{machine: named(name), state: rapid.SampledFrom(plan.States).Draw(t, "state"), wrote: rapid.Bool().Draw(t, "wrote")}
				s.waiting = s.state == plan.Pending && rapid.Bool().Draw(t, "waiting")
				s.unfinished = rapid.Bool().Draw(t, "unfinished")
				if s.pool = current(pool.Draw(t, "pool")); rapid.IntRange(0, 9).Draw(t, "no pool") == 0 {
					s.pool = nil
				}
				if machines[name] = s; s.pool == nil {
					delete(machines, name)
				}
				if out := b.record(s, start); out.finished {
					checkFinished(t, out, machines, s, told)
				}
			},
			"change": func(t *rapid.T) {
				name := pool.Draw(t, "pool")
				revisions[name]++
				b.poolSeen(current(name), members(rapid.SliceOfDistinct(machine, rapid.ID).Draw(t, "members")...), start, start)
			},
			"Machine gone": func(t *rapid.T) {
				name := machine.Draw(t, "machine")
				delete(machines, name)
				b.gone(named(name))
			},
			"pool gone": func(t *rapid.T) {
				name := pool.Draw(t, "pool")
				maps.DeleteFunc(machines, func(_ string, s sight) bool { return s.pool.Key.Name == name })
				b.poolGone(named(name))
				revisions[name]++
			},
			"": func(t *rapid.T) {
				if got, want := b.gauges(t), count(machines); got != want {
					t.Fatalf("gauges %s, counted %s", got, want)
				}
			},
		})
	})
}

// checkFinished recounts what the end of a roll-out tells.
func checkFinished(t *rapid.T, out news, machines map[string]sight, last sight, told map[string]bool) {
	revision := last.pool.Key.Name + "/" + last.pool.Revision
	if told[revision] {
		t.Fatalf("the end of %s is told twice", revision)
	}
	told[revision] = true
	total, states, waits := 0, map[plan.State]int{}, 0
	for _, s := range machines {
		if s.pool.Key != last.pool.Key {
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
		t.Fatalf("told %+v; counted %d Machines, %v, %d waiting", out, total, states, waits)
	}
}
