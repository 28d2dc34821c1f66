package disruption

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/watch"
)

// Membership resolves the NodeGroup of a Node or a Machine, and the members of a NodeGroup. Every decision asks it, so it answers from memory.
type Membership interface {
	// GroupOf returns the name of a Node's NodeGroup, empty for none. For a Machine without a Node, node is a plan.MachineName.
	GroupOf(ctx context.Context, node string) (string, error)
	// Members returns the Nodes of a NodeGroup as the cache has them, in an order that changes little from call to call, such as by name. They are
	// not changed.
	Members(ctx context.Context, group string) ([]*corev1.Node, error)
	// Machines returns what the Machines of a NodeGroup show beside its Nodes, except Machines whose Node became Ready before settled.
	Machines(ctx context.Context, group string, settled time.Time) (plan.Machines, error)
}

// Options are what Budgets need.
type Options struct {
	// Reader reads NodeGroups and node leases from the cache.
	Reader client.Reader
	// Writer writes the status of NodeGroups.
	Writer client.StatusClient
	// Membership resolves the groups of Nodes.
	Membership Membership
	// Windows returns whether disruptions of a group may begin at a time; nil is always.
	Windows func(group *v1alpha1.NodeGroup, now time.Time) plan.Window
	// Pace returns how long the Nodes of a group are waited for; nil waits for none.
	Pace func(group *v1alpha1.NodeGroup) plan.Pace
	// Joining returns the Machine, as namespace/name, that a Node without a Machine is about to get; empty for none. Nil is for no Machine.
	Joining func(ctx context.Context, node *corev1.Node) (machine string, err error)
	// Requests lists the remediation requests that exist in a namespace, as the API server has them; nil for none.
	Requests func(ctx context.Context, namespace string) ([]plan.Requested, error)
	// Written records the own writes of NodeGroups that the cache may not show yet, by name. Nil is for a Reader without a cache.
	Written *expectations.Owned
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Budgets gives permission to disrupt Nodes, for all controllers of the process. A nil *Budgets knows no group: it checks the quorum and the leases,
// and has no budget.
type Budgets struct {
	Options

	mu       sync.Mutex
	groups   map[string]*group
	requests requests

	listeners listeners
	// changed has an event with the name of a group when another number of its requests waits, or the work of one is over.
	changed watch.NodeEvents
}

// New returns Budgets.
func New(options Options) *Budgets {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Windows == nil {
		options.Windows = func(*v1alpha1.NodeGroup, time.Time) plan.Window { return plan.Window{} }
	}
	if options.Pace == nil {
		options.Pace = func(*v1alpha1.NodeGroup) plan.Pace { return plan.Pace{} }
	}
	return &Budgets{Options: options, groups: map[string]*group{}}
}

// State is what is known of the budget of a group.
type State struct {
	plan.Counts

	// Explanation says why requests wait, and which Nodes are unavailable; zero where none waits and the budget is not exceeded.
	Explanation plan.Explanation
	// Waiting is how many requests wait.
	Waiting int
	// Disrupted are the Nodes that capabilities disrupt, and the Machines that have to replace the Machines that capabilities have deleted.
	Disrupted []v1alpha1.Reservation
	// Returning reports that a Node has been available for too short a time since its disruption.
	Returning bool
}

// StateOf returns what is known of the budget of a group with these Nodes. It is zero for a group without a budget. The caller's Nodes count; the
// Nodes of the membership may be a moment behind.
func (b *Budgets) StateOf(ctx context.Context, name string, nodes []*corev1.Node) (state State, err error) {
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return state, err
	}
	defer g.unlock()
	observed, err := b.latest(ctx, g)
	if err != nil || observed.Spec.Disruption == nil {
		return state, err
	}
	since := b.Clock.Now().Add(-requestsAge)
	in, err := b.observeNodes(ctx, g, observed, new(view).update(nodes, observed.Spec.Disruption.UnavailableTaints), since)
	if err != nil {
		return state, err
	}
	state = State{Counts: plan.Count(in), Waiting: in.Waiting.Len(), Disrupted: plan.Report(in.Disrupted)}
	for _, sign := range in.Signs {
		state.Returning = state.Returning || sign == plan.SignReturning
	}
	if state.Waiting > 0 || state.Unavailable > state.Limit {
		state.Explanation = plan.Explain(in)
	}
	return state, nil
}

// Changed returns the source of the controller that says what waits: the work on a Node is over, or another number of requests waits. requests
// returns the requests for a group.
func (b *Budgets) Changed(requests func(ctx context.Context, group string) []reconcile.Request) source.Source {
	return b.changed.Source(requests)
}

// group returns what is known of a group.
func (b *Budgets) group(name string) *group {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, found := b.groups[name]
	if !found {
		// The status of the group says what waits.
		g = newGroup(name, func() { b.changed.Emit(name) })
		b.groups[name] = g
	}
	return g
}

// Forget drops what is known of a deleted group, and wakes the requests that wait for it.
func (b *Budgets) Forget(ctx context.Context, name string) error {
	err := b.Wake(ctx, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.groups, name)
	if b.Written != nil {
		b.Written.Forget(name)
	}
	return err
}
