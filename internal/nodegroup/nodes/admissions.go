package nodes

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/watch"
)

// Admission is which Nodes of a group a roll-out has reached.
type Admission struct {
	// Revision is that of the group's Declaration.
	Revision string
	// Nodes are the names of the Nodes that may be written.
	Nodes sets.Set[string]
}

// Admissions hold the Admission of each group. The controller of NodeGroups writes them, and that of Nodes reads them. They are lost when the process
// ends: where a roll-out is follows from the records on the Nodes. The zero value admits none.
type Admissions struct {
	events watch.NodeEvents

	mu     sync.Mutex
	groups map[types.UID]Admission
}

// Set replaces the Admission of a group, and has the Nodes reconciled that are admitted now and were not before.
func (a *Admissions) Set(group types.UID, admission Admission) {
	a.mu.Lock()
	before := a.groups[group]
	if a.groups == nil {
		a.groups = map[types.UID]Admission{}
	}
	a.groups[group] = admission
	a.mu.Unlock()
	added := admission.Nodes
	if before.Revision == admission.Revision {
		added = added.Difference(before.Nodes)
	}
	for _, node := range sets.List(added) {
		a.events.Emit(node)
	}
}

// Forget removes the Admission of a group that is gone.
func (a *Admissions) Forget(group types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.groups, group)
}

// Enqueue has Nodes reconciled.
func (a *Admissions) Enqueue(nodes ...string) {
	for _, node := range nodes {
		a.events.Emit(node)
	}
}

// admits reports whether a Node may be written with what its group declares now.
func (a *Admissions) admits(group *members.Group, node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	admission := a.groups[group.UID]
	return admission.Revision == group.Declaration.Revision && admission.Nodes.Has(node)
}
