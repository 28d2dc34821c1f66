package replacement

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/watch"
)

// Reports hold the Report of each group. This controller writes them, and that of NodeGroups reads them and writes the status. They are lost when the
// process ends. The zero value has none.
type Reports struct {
	// events are of groups, by their names.
	events watch.NodeEvents

	mu     sync.Mutex
	groups map[types.UID]plan.Report
}

// Set replaces the Report of a group, and has the group reconciled if it is another one.
func (r *Reports) Set(name string, group types.UID, report plan.Report) {
	r.mu.Lock()
	before, known := r.groups[group]
	if r.groups == nil {
		r.groups = map[types.UID]plan.Report{}
	}
	r.groups[group] = report
	r.mu.Unlock()
	if !known || before != report {
		r.events.Emit(name)
	}
}

// Of returns the Report of a group; nil before there is one.
func (r *Reports) Of(group types.UID) *plan.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	report, known := r.groups[group]
	if !known {
		return nil
	}
	return &report
}

// Forget removes the Report of a group that is gone.
func (r *Reports) Forget(group types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, group)
}

// Source returns the source of the requests for groups whose Report has changed.
func (r *Reports) Source() source.Source {
	return r.events.Source(func(_ context.Context, name string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
	})
}
