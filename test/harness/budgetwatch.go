package harness

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/test/harness/budgetcheck"
)

// BudgetWatch watches a NodeGroup, its Nodes, their leases and their Machines. It finds Nodes that are disrupted without an admission, and more
// disrupted Ready Nodes than the budget allows. Use it only in tests where nothing but Drover disrupts Nodes, or the machine-config-operator with
// Drover's permission.
type BudgetWatch struct {
	World *World

	mu      sync.Mutex
	waiting []budgetcheck.Event
	// newest is the highest revision seen so far, settled the highest revision at the previous call of Verify. The watches have no common order; by the
	// next call all of them have passed settled.
	newest, settled uint64
	state           *budgetcheck.State
}

// WatchBudget begins to watch a NodeGroup with a budget of so many Nodes. The names of its Nodes begin with one of prefixes. Its Machines have the
// same names.
func (w *World) WatchBudget(group string, limit int, prefixes ...string) *BudgetWatch {
	w.Helper()
	b := &BudgetWatch{World: w, state: budgetcheck.New(limit)}
	isMember := func(object client.Object) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(object.GetName(), prefix) })
	}
	isGroup := func(object client.Object) bool { return object.GetName() == group }
	b.follow(&v1alpha1.NodeGroupList{}, isGroup)
	b.follow(&corev1.NodeList{}, isMember)
	b.follow(&machinev1beta1.MachineList{}, isMember)
	b.follow(&coordinationv1.LeaseList{}, func(object client.Object) bool {
		return object.GetNamespace() == nodelease.DefaultNamespace && slices.ContainsFunc(prefixes, func(prefix string) bool {
			return strings.HasPrefix(object.GetName(), nodelease.Name(prefix))
		})
	})
	return b
}

// follow records the objects of a kind, and everything that happens to them.
func (b *BudgetWatch) follow(list client.ObjectList, wanted func(client.Object) bool) {
	b.World.Helper()
	b.state.Since(b.World.follow(list, func(object client.Object, gone bool) {
		if wanted(object) {
			b.observe(object, gone)
		}
	}))
}

func (b *BudgetWatch) observe(object client.Object, gone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	event := budgetcheck.Event{Revision: revisionOf(object), Object: object, Gone: gone}
	b.waiting, b.newest = append(b.waiting, event), max(b.newest, event.Revision)
}

// Verify fails the test for what was wrong until the last call.
func (b *BudgetWatch) Verify() {
	b.World.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judge(b.settled)
	b.settled = b.newest
}

// EventuallyFree is Eventually for what needs a place in a budget, or that none is taken: an operator that was killed before its first disruptive
// write left an admission that counts for a minute, and a lease that expires in another one.
func (w *World) EventuallyFree(what string, condition func() error) {
	w.Helper()
	if err := WaitLonger(w.Context(), disruptionplan.AdmissionTime+nodelease.Trial+Patience, slowPollInterval, condition); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// afterwards is how late an event of a watch may be that is no longer waited for.
const afterwards = time.Second

// Finish fails the test for what was wrong until now, when nothing is being disrupted any more. It returns how many Nodes were disrupted at once at
// most, and how many served when that was fewest.
func (b *BudgetWatch) Finish() (disrupted, serving int) {
	b.World.Helper()
	time.Sleep(afterwards)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judge(b.newest)
	return b.state.Most()
}

// judge judges what has happened up to a revision.
func (b *BudgetWatch) judge(upTo uint64) {
	b.World.Helper()
	slices.SortStableFunc(b.waiting, func(x, y budgetcheck.Event) int { return cmp.Compare(x.Revision, y.Revision) })
	over := 0
	for ; over < len(b.waiting) && b.waiting[over].Revision <= upTo; over++ {
		b.state.See(&b.waiting[over])
	}
	b.waiting = slices.Clone(b.waiting[over:])
	for _, fault := range b.state.Faults() {
		b.World.Error(fault)
	}
}
