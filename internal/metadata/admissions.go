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
	// admitted has an event for a Node that may be written now, and awaited one for a Node that waits for that, or that the API server has begun, or
	// ceased, to deny to write.
	admitted, awaited watch.NodeEvents

	mu   sync.Mutex
	sets map[types.UID]admission
	// waiting are the MachineSets with Nodes that wait, since they were last decided on.
	waiting sets.Set[types.UID]
	// denied has, by Node, the revision that the API server has denied to write.
	denied map[string]string
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

// forget removes what is known of a MachineSet that is gone.
func (a *admissions) forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sets, uid)
	a.waiting.Delete(uid)
}

// admits reports whether a Node may get what its MachineSet declares in a revision. If it may not, the MachineSet is decided on again.
func (a *admissions) admits(uid types.UID, revision, node string) bool {
	a.mu.Lock()
	current := a.sets[uid]
	admitted := current.revision == revision && current.nodes.Has(node)
	a.mu.Unlock()
	if !admitted {
		a.setWaiting(uid)
		a.awaited.Emit(node)
	}
	return admitted
}

// setWaiting records that Nodes of a MachineSet wait.
func (a *admissions) setWaiting(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting == nil {
		a.waiting = sets.Set[types.UID]{}
	}
	a.waiting.Insert(uid)
}

// takeWaiting reports whether Nodes of a MachineSet have begun to wait since the last call.
func (a *admissions) takeWaiting(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.waiting.Delete(uid)
	return a.waiting.Has(uid)
}

// setDenied records that the API server has denied to write a revision to a Node or its Machine: a wave does not wait for a few such Nodes. An empty
// revision is for a Node that has been written.
func (a *admissions) setDenied(node, revision string) {
	a.mu.Lock()
	changed := a.denied[node] != revision
	switch {
	case revision == "":
		delete(a.denied, node)
	case a.denied == nil:
		a.denied = map[string]string{node: revision}
	default:
		a.denied[node] = revision
	}
	a.mu.Unlock()
	if changed {
		a.awaited.Emit(node)
	}
}

// isDenied reports whether the API server has denied to write a revision to a Node.
func (a *admissions) isDenied(node, revision string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return revision != "" && a.denied[node] == revision
}
