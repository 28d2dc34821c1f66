package metadata

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// ledger remembers what was last seen of each Machine and pool, so that events mark transitions and the gauges are right without
// anybody counting thousands of Machines again. Nothing in it is needed to decide; a restart begins with an empty one.
type ledger struct {
	mu       sync.Mutex
	started  time.Time
	metrics  *Metrics
	machines map[types.NamespacedName]*machineEntry
	pools    map[types.NamespacedName]*poolEntry
	// written holds what Drover's last write of each Machine, and of its Node, was for, which may come before the first report on it: the
	// pool's revision, and for a Node which one it was and what was declared for it.
	written map[plan.Target]map[types.NamespacedName]string
}

type machineEntry struct {
	pool     types.NamespacedName
	state    plan.State
	waiting  bool // pending for want of a Node
	problems map[problemKey]bool
	// told tells that the problems have been reported; a pass that had to wait for its turn reports none.
	told bool
}

type poolEntry struct {
	revision string
	// seen is when the revision was first seen; zero for one that was there when the process started.
	seen time.Time
	// announced tells that the end of this revision's roll-out has been told, or that there was nothing to tell.
	announced bool
	wrote     bool
	machines  int
	waiting   int
	// awaited are the Machines not looked at since the revision was seen.
	awaited  map[types.NamespacedName]bool
	states   map[plan.State]int
	problems map[problemKey]int
}

type problemKey struct {
	kind   ownership.Kind
	key    string
	reason plan.Reason
}

// sight is what is reported of one pass.
type sight struct {
	machine  types.NamespacedName
	pool     *plan.Declaration
	state    plan.State
	waiting  bool
	problems []plan.Problem
	// wrote tells that this pass wrote something the pool declared anew; writing a repair does not count.
	wrote bool
	// unfinished tells that the pass could not write yet what it decided.
	unfinished bool
}

// news is what a sight changed, for events.
type news struct {
	// first tells that the Machine had not been seen before, moved that it stood elsewhere before.
	first, moved bool
	// awaited tells that the Machine was one of those that a change of the pool was for, and had not been served.
	awaited bool
	// machine are the problems that are new on this Machine, pool those that are new in its pool.
	machine, pool []plan.Problem
	// finished tells that this was the last Machine of a roll-out.
	finished bool
	// total and the others are the pool's counts when it finished.
	total, conflicts, held, waiting int
	// took is how long the roll-out took; zero when its begin was not seen.
	took time.Duration
}

func newLedger(metrics *Metrics, now time.Time) *ledger {
	return &ledger{
		started: now, metrics: metrics,
		machines: map[types.NamespacedName]*machineEntry{},
		pools:    map[types.NamespacedName]*poolEntry{},
		written:  map[plan.Target]map[types.NamespacedName]string{plan.OnMachine: {}, plan.OnNode: {}},
	}
}

// poolSeen notes a pool's revision, when it came up, and which Machines it is for. Made tells when the MachineSet was created.
func (l *ledger) poolSeen(pool *plan.Declaration, members []types.NamespacedName, made, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.poolEntry(pool.Key)
	if entry.revision == pool.Revision {
		return
	}
	if entry.revision != "" || !made.Before(l.started.Truncate(time.Second)) {
		entry.seen = now
	}
	entry.revision = pool.Revision
	entry.announced, entry.wrote = false, false
	entry.awaited = make(map[types.NamespacedName]bool, len(members))
	for _, member := range members {
		entry.awaited[member] = true
	}
}

func (l *ledger) poolEntry(key types.NamespacedName) *poolEntry {
	entry := l.pools[key]
	if entry == nil {
		entry = &poolEntry{states: map[plan.State]int{}, problems: map[problemKey]int{}}
		l.pools[key] = entry
	}
	return entry
}

// poolGone drops a pool's series and what is known of it.
func (l *ledger) poolGone(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, machine := range l.machines {
		if machine.pool == key {
			delete(l.machines, name)
		}
	}
	delete(l.pools, key)
	l.metrics.dropPool(key)
}

// record notes where a Machine stands after a pass and tells what is new.
func (l *ledger) record(s sight, now time.Time) news {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.machines[s.machine]
	if s.pool == nil {
		l.drop(s.machine)
		return news{first: before == nil}
	}
	entry, out := s.follow(before)
	l.remove(s.machine)
	out.pool = l.add(s.machine, entry, out.machine)
	pool := l.pools[s.pool.Key]
	pool.wrote = pool.wrote || s.wrote
	// One that has to wait for its turn still has the roll-out before it, whatever else its state is. One that is refused waits for a
	// person, and nobody for it.
	if s.pool.Revision == pool.revision && (!s.unfinished || s.state == plan.Held) {
		out.awaited = pool.awaited[s.machine]
		delete(pool.awaited, s.machine)
	}
	l.finish(pool, &out, now)
	return out
}

// follow makes the entry that comes after that of the pass before, nil where there was none, and tells what is new for the Machine.
func (s sight) follow(before *machineEntry) (*machineEntry, news) {
	entry := &machineEntry{pool: s.pool.Key, state: s.state, waiting: s.waiting, problems: map[problemKey]bool{}}
	out := news{
		first: before == nil || !before.told || before.pool != s.pool.Key,
		moved: before == nil || before.state != s.state || before.waiting != s.waiting,
	}
	if before != nil {
		entry.told = before.told
	}
	if s.unfinished && before != nil {
		entry.problems = before.problems
	}
	if !s.unfinished {
		out.machine = entry.tell(before, s.problems)
	}
	return entry, out
}

// tell takes over the problems of a pass and returns the new ones.
func (e *machineEntry) tell(before *machineEntry, problems []plan.Problem) []plan.Problem {
	var fresh []plan.Problem
	for _, problem := range problems {
		key := problemKey{problem.Kind, problem.Key, problem.Reason}
		if before == nil || !before.problems[key] {
			fresh = append(fresh, problem)
		}
		e.problems[key] = true
	}
	e.told = true
	return fresh
}

// add counts a Machine for its pool and tells which of its new problems are new in the pool.
func (l *ledger) add(name types.NamespacedName, entry *machineEntry, fresh []plan.Problem) []plan.Problem {
	pool := l.poolEntry(entry.pool)
	l.machines[name] = entry
	pool.machines++
	pool.count(entry, 1)
	l.metrics.setNodes(entry.pool, entry.state, pool.states[entry.state])
	for key := range entry.problems {
		pool.problems[key]++
	}
	var news []plan.Problem
	for _, problem := range fresh {
		if pool.problems[problemKey{problem.Kind, problem.Key, problem.Reason}] == 1 {
			news = append(news, problem)
		}
	}
	return news
}

// remove takes a Machine off the counts of its pool.
func (l *ledger) remove(name types.NamespacedName) {
	entry := l.machines[name]
	if entry == nil {
		return
	}
	delete(l.machines, name)
	pool := l.pools[entry.pool]
	if pool == nil {
		return
	}
	pool.machines--
	pool.count(entry, -1)
	l.metrics.setNodes(entry.pool, entry.state, pool.states[entry.state])
	for key := range entry.problems {
		if pool.problems[key]--; pool.problems[key] <= 0 {
			delete(pool.problems, key)
		}
	}
}

func (p *poolEntry) count(entry *machineEntry, by int) {
	p.states[entry.state] += by
	if entry.waiting {
		p.waiting += by
	}
}

// finish tells once when no Machine of a pool is left to be written. Machines without a Node are not waited for.
func (l *ledger) finish(pool *poolEntry, out *news, now time.Time) {
	if pool.announced || !pool.wrote || len(pool.awaited) > 0 || pool.states[plan.Pending] > pool.waiting {
		return
	}
	pool.announced = true
	out.finished = true
	out.total, out.waiting = pool.machines, pool.waiting
	out.conflicts, out.held = pool.states[plan.Conflicted], pool.states[plan.Held]
	if !pool.seen.IsZero() {
		out.took = now.Sub(pool.seen)
	}
}

// gone drops a Machine.
func (l *ledger) gone(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(name)
}

func (l *ledger) drop(name types.NamespacedName) {
	l.remove(name)
	for _, written := range l.written {
		delete(written, name)
	}
	for _, pool := range l.pools {
		delete(pool.awaited, name)
	}
}

// rewrites tells whether a Machine, or its Node, that is about to be written for a revision was written for the same one before: then
// somebody else has changed it since.
func (l *ledger) rewrites(target plan.Target, name types.NamespacedName, revision string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	written, ok := l.written[target][name]
	return ok && written == revision
}

// wrote notes for which revision a Machine, or its Node, was written.
func (l *ledger) wrote(target plan.Target, name types.NamespacedName, revision string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written[target][name] = revision
}

// known tells whether a pool has been seen.
func (l *ledger) known(pool types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pools[pool] != nil && l.pools[pool].revision != ""
}

// since tells when the pool's present revision came up, the zero time when that was before the process started.
func (l *ledger) since(pool types.NamespacedName) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry := l.pools[pool]; entry != nil {
		return entry.seen
	}
	return time.Time{}
}
