// Package gate is between who decides how far a roll-out is and who writes Nodes: the controllers of NodeGroups and of the waves of MachineSets say
// which Nodes a roll-out has reached, and hear which of those cannot be written, and why. The controller of metadata asks before it writes a Node.
//
// Nothing here survives the process: where a roll-out is follows from the records on the Nodes and from what the deciding controller keeps.
package gate

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/watch"
)

// Admission is which Nodes of an owner, a NodeGroup or a MachineSet, a roll-out has reached.
type Admission struct {
	// Generation is the owner's generation. Revision identifies all that its Nodes are to carry, and Declarations what single Nodes are to carry.
	Generation   int64
	Revision     string
	Declarations sets.Set[string]
	// Unfit are the MachineSets whose taints do not fit in the status of the NodeGroup.
	Unfit sets.Set[types.UID]
	// Wave is the number of the wave that is under way; zero after the roll-out.
	Wave int
	// Nodes are the names of the Nodes that may be written. Released are the names of the Nodes that have left the NodeGroup and are given back.
	Nodes, Released sets.Set[string]
}

// evictions are the evictions of a wave, by Node. After the roll-out, they are the evictions that have not ended yet.
type evictions struct {
	revision string
	wave     int
	pods     map[string]int
}

// Gate holds the Admission of each owner, and the Trouble of each Node. It is safe for concurrent use. The zero value admits none.
type Gate struct {
	// admitted has an event for a Node that may be written now. changed has one for a Node whose Trouble has changed, or that waits.
	admitted, changed watch.NodeEvents

	mu        sync.Mutex
	owners    map[types.UID]Admission
	evictions map[types.UID]evictions
	troubles  map[string]Trouble
	writes    map[string]write
	// waiting are the owners with Nodes that wait, since TakeWaiting was last called for them.
	waiting sets.Set[types.UID]
}

// Trouble is what keeps a Node from carrying what its owner declares.
type Trouble struct {
	// Held is why guarded taints are held back; empty where they are not.
	Held string
	// Contended are the keys that another writer keeps changing.
	Contended ownership.Section
	// Failing is why writes of the Node fail; empty otherwise. Revision is the declaration whose writes fail; empty if they fail whatever is declared.
	Failing, Revision string
}

func (t *Trouble) equal(other *Trouble) bool {
	return t.Held == other.Held && t.Failing == other.Failing && t.Revision == other.Revision && t.Contended.Equal(other.Contended)
}

// Set replaces the Admission of an owner. It wakes the Nodes that are admitted now and were not before, and the Nodes that have left the owner. After
// a change of the owner's spec, it wakes all admitted Nodes: a NodeGroup may have been a dry run before, or have had other limits.
func (g *Gate) Set(owner types.UID, admission Admission) {
	g.mu.Lock()
	before := g.owners[owner]
	if g.owners == nil {
		g.owners = map[types.UID]Admission{}
	}
	g.owners[owner] = admission
	g.mu.Unlock()
	added := admission.Nodes
	if before.Revision == admission.Revision && before.Generation == admission.Generation && before.Unfit.Equal(admission.Unfit) {
		added = added.Difference(before.Nodes)
	}
	for _, node := range sets.List(added.Union(admission.Released)) {
		g.admitted.Emit(node)
	}
}

// Forget removes what is known of an owner that is gone.
func (g *Gate) Forget(owner types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.owners, owner)
	delete(g.evictions, owner)
	g.waiting.Delete(owner)
}

// Admits reports whether a Node may be written with a declaration of its owner, which has this revision.
func (g *Gate) Admits(owner types.UID, revision, node string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	admission := g.owners[owner]
	return admission.Declarations.Has(revision) && admission.Nodes.Has(node)
}

// Releasing returns the names of the Nodes that have left an owner and may be written. The set must not be changed.
func (g *Gate) Releasing(owner types.UID) sets.Set[string] {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owners[owner].Released
}

// IsUnfit reports whether the taints of a MachineSet do not fit in the status of its NodeGroup.
func (g *Gate) IsUnfit(group, set types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owners[group].Unfit.Has(set)
}

// Await records that a Node of an owner waits for its turn; an empty name is for any.
func (g *Gate) Await(owner types.UID, node string) {
	g.mu.Lock()
	if g.waiting == nil {
		g.waiting = sets.Set[types.UID]{}
	}
	g.waiting.Insert(owner)
	g.mu.Unlock()
	if node != "" {
		g.changed.Emit(node)
	}
}

// TakeWaiting reports whether Nodes of an owner have begun to wait since the last call.
func (g *Gate) TakeWaiting(owner types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.waiting.Delete(owner)
	return g.waiting.Has(owner)
}

// Trouble returns what keeps a Node from carrying what its owner declares.
func (g *Gate) Trouble(node string) Trouble {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.troubles[node]
}

// SetTrouble changes what Trouble returns.
func (g *Gate) SetTrouble(node string, change func(*Trouble)) {
	g.mu.Lock()
	before := g.troubles[node]
	after := before
	change(&after)
	if g.troubles == nil {
		g.troubles = map[string]Trouble{}
	}
	g.troubles[node] = after
	if after.equal(&Trouble{}) {
		delete(g.troubles, node)
	}
	g.mu.Unlock()
	if !before.equal(&after) {
		g.changed.Emit(node)
	}
}

// ForgetNode drops the Trouble of a Node that is gone, or has no owner.
func (g *Gate) ForgetNode(node string) {
	g.SetTrouble(node, func(t *Trouble) { *t = Trouble{} })
}

// Admitted returns the source of who writes Nodes: a Node may be written now.
func (g *Gate) Admitted(requests func(ctx context.Context, node string) []reconcile.Request) source.Source {
	return g.admitted.Source(requests)
}

// Changed returns the source of who decides on a roll-out: Trouble has changed for a Node, or it waits.
func (g *Gate) Changed(requests func(ctx context.Context, node string) []reconcile.Request) source.Source {
	return g.changed.Source(requests)
}

// Evict counts the Pods that are evicted from a Node in the wave of a NodeGroup that is under way, unless there would be more than a limit in all,
// and the evictions have not begun. It returns how many there are with them.
func (g *Gate) Evict(group types.UID, node string, pods, limit int, begun bool) (all int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	admission, counted := g.owners[group], g.evictions[group]
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
	if g.evictions == nil {
		g.evictions = map[types.UID]evictions{}
	}
	g.evictions[group] = counted
	return all
}

// EndEvictions ends those from a Node.
func (g *Gate) EndEvictions(node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, counted := range g.evictions {
		if counted.wave == 0 {
			delete(counted.pods, node)
		}
	}
}
