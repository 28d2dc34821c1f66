package disruption

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/watch"
)

// Membership resolves which Nodes belong to which NodeGroup. It is asked on every reservation, and answers from memory.
type Membership interface {
	// GroupOf returns the name of the NodeGroup that a Node belongs to, empty for none; a plan.MachineName is the Node that the Machine is to have.
	GroupOf(ctx context.Context, node string) (string, error)
	// Members returns the Nodes of a NodeGroup as the cache has them, in an order that changes little from call to call, such as by name. They are
	// not changed.
	Members(ctx context.Context, group string) ([]*corev1.Node, error)
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
	// Written records the own writes of NodeGroups that the cache may not show yet, by name. Nil is for a Reader without a cache.
	Written *expectations.Owned
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Budgets gives out the places in the budgets of all NodeGroups, for all controllers of the process. A nil *Budgets knows no group, and allows
// every disruption.
type Budgets struct {
	Options

	mu     sync.Mutex
	groups map[string]*group

	listeners listeners
	// finished has an event with the name of a group when the work of one of its reservations is over.
	finished watch.NodeEvents
}

// New returns Budgets.
func New(options Options) *Budgets {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Windows == nil {
		options.Windows = func(*v1alpha1.NodeGroup, time.Time) plan.Window { return plan.Window{} }
	}
	return &Budgets{Options: options, groups: map[string]*group{}}
}

// Request asks for a place, to disrupt a Node.
type Request struct {
	plan.Request

	// Group is the NodeGroup where the caller knows it; empty is that of the Node.
	Group string
}

// Answer is the decision about a request.
type Answer struct {
	plan.Answer

	// Group is the name of the NodeGroup; empty for a Node without one.
	Group string
	// Until is when the first disruptive write has to be made. A reservation that is not used until then is reserved again, which shows that it is
	// still there: a process that was stopped for long may no longer be the leader. Zero is never.
	Until time.Time
}

// Expired reports whether it is too late for the first disruptive write.
func (a *Answer) Expired(now time.Time) bool { return !a.Until.IsZero() && now.After(a.Until) }

// Reserve reserves a place for a disruption that has not begun, and makes at most one write for that. It returns a recorded reservation again, and
// renews it when it is older than plan.RenewAfter. A request that is not admitted waits for its turn, for as long as it is made again; a place that
// is recorded for it is given back. The error is a conflict when another writer was faster; then nothing is reserved, or given back.
func (b *Budgets) Reserve(ctx context.Context, request Request) (Answer, error) {
	name, err := b.groupOf(ctx, &request)
	if err != nil || name == "" {
		return Answer{Answer: plan.Answer{Allowed: err == nil}}, err
	}
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return Answer{}, fmt.Errorf("reserving Node %s in NodeGroup %s: %w", request.Node, name, err)
	}
	defer g.unlock()
	observed, err := b.observe(ctx, g)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Answer: g.decide(observed, &request.Request), Group: name}
	switch {
	case answer.Release:
		err = b.remove(ctx, g, observed.Group, *answer.Reservation)
	case answer.Allowed && answer.Reservation != nil:
		answer.Until, err = b.record(ctx, g, observed, &answer)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("reserving Node %s in NodeGroup %s: %w", request.Node, name, err)
	}
	return answer, nil
}

// record writes the reservation of an answer unless that has been done a moment ago. It returns until when the work may begin.
func (b *Budgets) record(ctx context.Context, g *group, observed *plan.Input, answer *Answer) (until time.Time, err error) {
	key := plan.KeyOf(answer.Reservation)
	if confirmed, found := g.confirmed[key]; found && answer.Recorded && observed.Now.Sub(confirmed) < plan.RenewAfter {
		delete(g.finished, key)
		return confirmed.Add(plan.RenewAfter), nil
	}
	answer.Reservation.Time = metav1.NewTime(observed.Now).Rfc3339Copy()
	if err := b.write(ctx, g, observed.Group, reserve(observed.Group, *answer.Reservation)); err != nil {
		return time.Time{}, err
	}
	g.confirm(key, observed.Now)
	return observed.Now.Add(plan.RenewAfter), nil
}

func (b *Budgets) groupOf(ctx context.Context, request *Request) (string, error) {
	switch {
	case b == nil:
		return "", nil
	case request.Group != "":
		return request.Group, nil
	}
	name, err := b.Membership.GroupOf(ctx, request.Node)
	if err != nil {
		return "", fmt.Errorf("finding the NodeGroup of Node %s: %w", request.Node, err)
	}
	return name, nil
}

// Counts returns what the budget of a group with these Nodes is compared with, and how many requests wait. It is zero for a group without a budget.
// The caller's Nodes count and not those of the membership, which may be a moment behind.
func (b *Budgets) Counts(ctx context.Context, name string, nodes []*corev1.Node) (counts plan.Counts, waiting int, err error) {
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return plan.Counts{}, 0, err
	}
	defer g.unlock()
	observed, err := b.observe(ctx, g)
	if err != nil || observed.Group.Spec.Disruption == nil {
		return plan.Counts{}, 0, err
	}
	observed.Members = new(view).update(nodes, observed.Group.Spec.Disruption.UnavailableTaints)
	return plan.Count(observed), observed.Waiting.Len(), nil
}

// group returns what is known of a group.
func (b *Budgets) group(name string) *group {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, found := b.groups[name]
	if !found {
		// The status of the group says what waits.
		g = newGroup(name, func() { b.finished.Emit(name) })
		b.groups[name] = g
	}
	return g
}

// Forget drops what is known of a group that is gone, and wakes those that wait for it.
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
