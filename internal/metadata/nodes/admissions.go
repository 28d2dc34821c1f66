package nodes

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/watch"
)

// Admission is which Nodes of a group a roll-out has reached.
type Admission struct {
	// Generation is that of the group, Revision that of all that its Nodes are to carry, and Declarations those of what single Nodes are to carry.
	Generation   int64
	Revision     string
	Declarations sets.Set[string]
	// Unfit are the MachineSets whose taints do not fit in the status of the group.
	Unfit sets.Set[types.UID]
	// Wave is the number of the wave that is under way; zero after the roll-out.
	Wave int
	// Nodes are the names of the Nodes of the group that may be written, and Released those that have left it.
	Nodes, Released sets.Set[string]
}

// evictions are those of a wave, by Node. After the roll-out they are those that have not ended yet.
type evictions struct {
	revision string
	wave     int
	pods     map[string]int
}

// Admissions hold the Admission of each group. The controller of NodeGroups writes them, and that of Nodes reads them. They are lost when the process
// ends: where a roll-out is follows from the records on the Nodes. The zero value admits none.
type Admissions struct {
	events watch.NodeEvents
	// changed has an event for a Node whose Trouble has changed.
	changed watch.NodeEvents

	mu        sync.Mutex
	groups    map[types.UID]Admission
	evictions map[types.UID]evictions
	troubles  map[string]Trouble
	inFlight  map[string]inFlight
}

// Trouble is what keeps a Node from carrying what its group declares.
type Trouble struct {
	// Held is why guarded taints are held back; empty where they are not.
	Held string
	// Contended are the keys that another writer keeps changing.
	Contended ownership.Section
	// Failing is why writes of the Node fail, if they have failed for a while; empty otherwise.
	Failing string
}

func (t *Trouble) equal(other *Trouble) bool {
	return t.Held == other.Held && t.Failing == other.Failing && t.Contended.Equal(other.Contended)
}

// Set replaces the Admission of a group, and has the Nodes reconciled that are admitted now and were not before, and those that have left it. After a
// change of the group's spec it has all admitted Nodes reconciled: their group may have been a dry run before, or have had other limits.
func (a *Admissions) Set(group types.UID, admission Admission) {
	a.mu.Lock()
	before := a.groups[group]
	if a.groups == nil {
		a.groups = map[types.UID]Admission{}
	}
	a.groups[group] = admission
	a.mu.Unlock()
	added := admission.Nodes
	if before.Revision == admission.Revision && before.Generation == admission.Generation && before.Unfit.Equal(admission.Unfit) {
		added = added.Difference(before.Nodes)
	}
	for _, node := range sets.List(added.Union(admission.Released)) {
		a.events.Emit(node)
	}
}

// Forget removes the Admission of a group that is gone.
func (a *Admissions) Forget(group types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.groups, group)
	delete(a.evictions, group)
}

// Trouble returns what keeps a Node from carrying what its group declares.
func (a *Admissions) Trouble(node string) Trouble {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.troubles[node]
}

// Changed returns the source of the controller of NodeGroups: Trouble has changed for a Node.
func (a *Admissions) Changed(requests func(ctx context.Context, node string) []reconcile.Request) source.Source {
	return a.changed.Source(requests)
}

// setTrouble changes what Trouble returns.
func (a *Admissions) setTrouble(node string, change func(*Trouble)) {
	a.mu.Lock()
	before := a.troubles[node]
	after := before
	change(&after)
	if a.troubles == nil {
		a.troubles = map[string]Trouble{}
	}
	a.troubles[node] = after
	if after.equal(&Trouble{}) {
		delete(a.troubles, node)
	}
	a.mu.Unlock()
	if !before.equal(&after) {
		a.changed.Emit(node)
	}
}

// setHeld sets why guarded taints of a Node are held back; empty where they are not.
func (a *Admissions) setHeld(node, why string) {
	a.setTrouble(node, func(t *Trouble) { t.Held = why })
}

// forgetNode drops what is known of a Node that is gone, or in no group.
func (a *Admissions) forgetNode(node string) {
	a.setTrouble(node, func(t *Trouble) { *t = Trouble{} })
}

// evict counts the Pods that are evicted from a Node in the wave that is under way, unless there would be more than a limit in all, and the evictions
// have not begun. It returns how many there are with them.
func (a *Admissions) evict(group *members.Group, node string, pods, limit int, begun bool) (all int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	admission, counted := a.groups[group.UID], a.evictions[group.UID]
	if counted.pods == nil || counted.wave != admission.Wave || counted.revision != admission.Revision {
		counted = evictions{revision: admission.Revision, wave: admission.Wave, pods: map[string]int{}}
	}
	// The Pods of a Node become fewer while they leave.
	pods = max(pods, counted.pods[node])
	for other, count := range counted.pods {
		if other != node {
			all += count
		}
	}
	if all += pods; all <= limit || begun {
		counted.pods[node] = pods
	}
	if a.evictions == nil {
		a.evictions = map[types.UID]evictions{}
	}
	a.evictions[group.UID] = counted
	return all
}

// endEvictions ends those from a Node.
func (a *Admissions) endEvictions(node string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, counted := range a.evictions {
		if counted.wave == 0 {
			delete(counted.pods, node)
		}
	}
}

// Releasing returns the names of the Nodes that have left a group and may be written. The set must not be changed.
func (a *Admissions) Releasing(group types.UID) sets.Set[string] {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.groups[group].Released
}

// admits reports whether a Node may be written with a declaration of its group, which has this revision.
func (a *Admissions) admits(group types.UID, revision, node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	admission := a.groups[group]
	return admission.Declarations.Has(revision) && admission.Nodes.Has(node)
}

// isUnfit reports whether the taints of a Node's MachineSet do not fit in the status of its group.
func (a *Admissions) isUnfit(m *members.Assignment) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return m.Group != nil && m.MachineSet != nil && a.groups[m.Group.UID].Unfit.Has(m.MachineSet.UID)
}
