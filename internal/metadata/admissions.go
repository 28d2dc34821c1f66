package metadata

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/internal/watch"
)

// admissions are which Nodes the waves of each MachineSet have reached. The controller of waves writes them, and that of Machines reads them. The
// zero value admits none.
type admissions struct {
	// admitted has an event for a Node that may be written now, and denied one for a Node of which that has changed.
	admitted, denied watch.NodeEvents

	mu      sync.Mutex
	sets    map[types.UID]admission
	refused sets.Set[string]
}

// admission is which Nodes of a MachineSet may get what it declares in a revision.
type admission struct {
	revision string
	nodes    sets.Set[string]
}

// set replaces the admission of a MachineSet, and has the Nodes reconciled that are admitted now and were not before.
func (a *admissions) set(uid types.UID, next admission) {
	a.mu.Lock()
	before := a.sets[uid]
	if a.sets == nil {
		a.sets = map[types.UID]admission{}
	}
	a.sets[uid] = next
	a.mu.Unlock()
	added := next.nodes
	if before.revision == next.revision {
		added = added.Difference(before.nodes)
	}
	for _, node := range sets.List(added) {
		a.admitted.Emit(node)
	}
}

// forget removes the admission of a MachineSet that is gone.
func (a *admissions) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sets, uid)
}

// admits reports whether a Node may get what its MachineSet declares in a revision.
func (a *admissions) admits(uid types.UID, revision, node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	current := a.sets[uid]
	return current.revision == revision && current.nodes.Has(node)
}

// setDenied records whether the API server has denied the last write of a Node or its Machine: a wave does not wait for a few such Nodes.
func (a *admissions) setDenied(node string, denied bool) {
	a.mu.Lock()
	changed := a.refused.Has(node) != denied
	switch {
	case !denied:
		a.refused.Delete(node)
	case a.refused == nil:
		a.refused = sets.New(node)
	default:
		a.refused.Insert(node)
	}
	a.mu.Unlock()
	if changed {
		a.denied.Emit(node)
	}
}

// isDenied returns what setDenied has recorded.
func (a *admissions) isDenied(node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused.Has(node)
}
