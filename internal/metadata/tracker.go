package metadata

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// tracker keeps the last report of each Machine and the progress of each rollout, so that events mark transitions and the gauges are right without
// counting thousands of Machines again. No decision needs it; after a restart it is empty.
type tracker struct {
	mu       sync.Mutex
	started  time.Time
	metrics  *Metrics
	machines map[types.NamespacedName]*machineEntry
	// rollouts are the roll-outs of the MachineSets.
	rollouts map[types.NamespacedName]*setRollout
	// written holds what Drover last wrote to each Machine, and to its Node, which may be before the first report: the revision of what the
	// MachineSet declares, and for a Node which one it was and what was declared for it.
	written map[plan.Target]map[types.NamespacedName]string
}

// machineEntry is the last report of a Machine.
type machineEntry struct {
	set      types.NamespacedName
	state    plan.State
	waiting  bool // pending because it has no Node
	problems map[problemKey]bool
	// reported is whether the problems have been reported; a reconciliation that waits for its turn reports none.
	reported bool
}

// setRollout is the progress of one revision of what a MachineSet declares.
type setRollout struct {
	revision string
	// started is when the revision was first observed; zero if it existed when the process started.
	started time.Time
	// completed is whether the end of the rollout has been reported, or there was nothing to report.
	completed bool
	wrote     bool
	machines  int
	waiting   int
	// remaining are the Machines not reconciled since the revision was observed.
	remaining map[types.NamespacedName]bool
	states    map[plan.State]int
	problems  map[problemKey]int
}

type problemKey struct {
	kind   ownership.Kind
	key    string
	reason plan.Reason
}

func keyOf(p plan.Problem) problemKey { return problemKey{p.Kind, p.Key, p.Reason} }

// report is what a reconciliation of a Machine has come to.
type report struct {
	machine types.NamespacedName
	// declaration is what the Machine's MachineSet declares; nil for none.
	declaration *plan.Declaration
	state       plan.State
	// waiting is whether the Machine is pending because it has no Node.
	waiting  bool
	problems []plan.Problem
	// wrote is whether something was written that is declared anew; a repair does not count.
	wrote bool
	// unfinished is whether what was decided could not be written yet.
	unfinished bool
}

// transition is what a report changed, for events.
type transition struct {
	// first is whether the Machine had not been reported before, changed whether its state was another one.
	first, changed bool
	// remaining is whether a roll-out concerned the Machine and had not reached it.
	remaining bool
	// onMachine are the problems that are new on this Machine. inSet are the problems that are new in its MachineSet.
	onMachine, inSet []plan.Problem
	// completed is whether this was the last Machine of a rollout.
	completed bool
	// total and the others are the counts of the MachineSet when the rollout was completed.
	total, conflicts, held, waiting int
	// took is how long the rollout took; zero when its start was not observed.
	took time.Duration
}

func newTracker(metrics *Metrics, now time.Time) *tracker {
	return &tracker{
		started: now, metrics: metrics,
		machines: map[types.NamespacedName]*machineEntry{},
		rollouts: map[types.NamespacedName]*setRollout{},
		written:  map[plan.Target]map[types.NamespacedName]string{plan.OnMachine: {}, plan.OnNode: {}},
	}
}

// startRollout records the revision of what a MachineSet declares and the Machines that it is for, unless the revision is known. created is when the
// MachineSet was created.
func (t *tracker) startRollout(declaration *plan.Declaration, members []types.NamespacedName, created, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	current := t.rolloutOf(declaration.Key)
	if current.revision == declaration.Revision {
		return
	}
	if current.revision != "" || !created.Before(t.started.Truncate(time.Second)) {
		current.started = now
	}
	current.revision = declaration.Revision
	current.completed, current.wrote = false, false
	current.remaining = make(map[types.NamespacedName]bool, len(members))
	for _, member := range members {
		current.remaining[member] = true
	}
}

func (t *tracker) rolloutOf(set types.NamespacedName) *setRollout {
	current := t.rollouts[set]
	if current == nil {
		current = &setRollout{states: map[plan.State]int{}, problems: map[problemKey]int{}}
		t.rollouts[set] = current
	}
	return current
}

// forgetSet removes what is known of a MachineSet that is gone, and its series.
func (t *tracker) forgetSet(set types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, machine := range t.machines {
		if machine.set == set {
			delete(t.machines, key)
		}
	}
	delete(t.rollouts, set)
	t.metrics.forgetSet(set)
}

// record keeps a report and returns what it changed.
func (t *tracker) record(r report, now time.Time) transition {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.machines[r.machine]
	if r.declaration == nil {
		t.drop(r.machine)
		return transition{first: before == nil}
	}
	entry, out := r.compare(before)
	t.remove(r.machine)
	out.inSet = t.add(r.machine, entry, out.onMachine)
	current := t.rollouts[r.declaration.Key]
	current.wrote = current.wrote || r.wrote
	// A Machine that waits for its turn is not finished, whatever else its state is. One whose write was denied waits for a user, and the rollout does
	// not wait for it.
	if r.declaration.Revision == current.revision && (!r.unfinished || r.state == plan.Held) {
		out.remaining = current.remaining[r.machine]
		delete(current.remaining, r.machine)
	}
	current.complete(&out, now)
	return out
}

// compare returns the entry for a report, and what differs from the entry before; nil for none.
func (r report) compare(before *machineEntry) (*machineEntry, transition) {
	entry := &machineEntry{set: r.declaration.Key, state: r.state, waiting: r.waiting, problems: map[problemKey]bool{}}
	out := transition{
		first:   before == nil || !before.reported || before.set != r.declaration.Key,
		changed: before == nil || before.state != r.state || before.waiting != r.waiting,
	}
	if before != nil {
		entry.reported = before.reported
	}
	if r.unfinished && before != nil {
		entry.problems = before.problems
	}
	if !r.unfinished {
		out.onMachine = entry.report(before, r.problems)
	}
	return entry, out
}

// report takes over the problems of a reconciliation and returns the new ones.
func (e *machineEntry) report(before *machineEntry, problems []plan.Problem) (added []plan.Problem) {
	for _, problem := range problems {
		key := keyOf(problem)
		if before == nil || !before.problems[key] {
			added = append(added, problem)
		}
		e.problems[key] = true
	}
	e.reported = true
	return added
}

// add counts a Machine for its MachineSet. It returns the Machine's new problems that are also new in the MachineSet.
func (t *tracker) add(machine types.NamespacedName, entry *machineEntry, problems []plan.Problem) (added []plan.Problem) {
	current := t.rolloutOf(entry.set)
	t.machines[machine] = entry
	current.count(entry, 1)
	t.metrics.setNodes(entry.set, entry.state, current.states[entry.state])
	for key := range entry.problems {
		current.problems[key]++
	}
	for _, problem := range problems {
		if current.problems[keyOf(problem)] == 1 {
			added = append(added, problem)
		}
	}
	return added
}

// remove takes a Machine out of the counts of its MachineSet.
func (t *tracker) remove(machine types.NamespacedName) {
	entry := t.machines[machine]
	if entry == nil {
		return
	}
	delete(t.machines, machine)
	current := t.rollouts[entry.set]
	if current == nil {
		return
	}
	current.count(entry, -1)
	t.metrics.setNodes(entry.set, entry.state, current.states[entry.state])
	for key := range entry.problems {
		if current.problems[key]--; current.problems[key] <= 0 {
			delete(current.problems, key)
		}
	}
}

func (r *setRollout) count(entry *machineEntry, by int) {
	r.machines += by
	r.states[entry.state] += by
	if entry.waiting {
		r.waiting += by
	}
}

// complete reports once when no Machine of a MachineSet remains to be written. It does not wait for Machines without a Node.
func (r *setRollout) complete(out *transition, now time.Time) {
	if r.completed || !r.wrote || len(r.remaining) > 0 || r.states[plan.Pending] > r.waiting {
		return
	}
	r.completed, out.completed = true, true
	out.total, out.waiting = r.machines, r.waiting
	out.conflicts, out.held = r.states[plan.Conflicted], r.states[plan.Held]
	if !r.started.IsZero() {
		out.took = now.Sub(r.started)
	}
}

// forgetMachine removes what is known of a Machine that is gone.
func (t *tracker) forgetMachine(machine types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(machine)
}

func (t *tracker) drop(machine types.NamespacedName) {
	t.remove(machine)
	for _, written := range t.written {
		delete(written, machine)
	}
	for _, current := range t.rollouts {
		delete(current.remaining, machine)
	}
}

// wasWritten reports whether a Machine, or its Node, was last written for a revision. If it has to be written for it again, another writer has
// changed it since.
func (t *tracker) wasWritten(target plan.Target, machine types.NamespacedName, revision string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	written, ok := t.written[target][machine]
	return ok && written == revision
}

// recordWrite records the revision that was written to a Machine, or to its Node.
func (t *tracker) recordWrite(target plan.Target, machine types.NamespacedName, revision string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written[target][machine] = revision
}

// knows reports whether the revision of a MachineSet has been observed.
func (t *tracker) knows(set types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rollouts[set] != nil && t.rollouts[set].revision != ""
}

// startOf returns when the rollout of a MachineSet started; the zero time when that was before the process started.
func (t *tracker) startOf(set types.NamespacedName) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if current := t.rollouts[set]; current != nil {
		return current.started
	}
	return time.Time{}
}
