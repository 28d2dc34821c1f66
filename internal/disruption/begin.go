package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/quorum"
	"github.com/drover-io/drover/internal/status"
)

// Request asks for the permission to disrupt a Node.
type Request struct {
	plan.Request

	// Target is the Node as the cache has it. It is nil if the Node is gone, or has never existed.
	Target *corev1.Node
	// Leases acquires the lease of the Target; nil needs none. Borrowed only waits while another holder has it: another controller does the work.
	Leases   *nodelease.Leases
	Borrowed bool
	// Kept reports that the request keeps its lease while it waits: the work has begun, when the Node was in another group or in none.
	Kept bool
	// Trial has the lease expire soon unless the work renews it: nothing releases it if the process ends before the first disruptive write.
	Trial bool
	// Guard protects the control plane; nil protects nothing. Protected is the control plane Node to disrupt. Peer is asked first, and says why another
	// Node may not be spared; nil is not asked.
	Guard     quorum.Checker
	Protected *corev1.Node
	Peer      func(ctx context.Context) (denial string, err error)
}

// purpose is what the lease says.
func (r *Request) purpose() nodelease.Purpose {
	return nodelease.Purpose{Capability: string(r.Capability), Object: r.Object, UID: r.ObjectUID, Trial: r.Trial}
}

// Permit is the answer to a request. The caller calls Done after its first disruptive write, or when it makes none.
type Permit struct {
	plan.Answer

	// Group is the NodeGroup that was asked; empty for none.
	Group string
	// Held is the other holder of the lease where Reason is plan.ReasonLease.
	Held *nodelease.AlreadyHeldError
	// Renewal is when the lease has to be renewed; zero for no lease. LeaseFailed reports that the error came from acquiring the lease.
	Renewal     time.Duration
	LeaseFailed bool

	unlock func()
	cancel context.CancelFunc
}

// Done ends the context of the first disruptive write, and lets others check whether the control plane can spare a Node. It may be called more than
// once.
func (p *Permit) Done() {
	if p.cancel != nil {
		p.cancel()
	}
	if p.unlock != nil {
		p.unlock()
		p.unlock = nil
	}
}

func (p *Permit) deny(reason, message string, after time.Duration) {
	p.Allowed, p.Reason, p.Message, p.After = false, reason, message, after
}

// Begin asks for the permission to disrupt a Node. It asks in this order: does another holder have the lease, can the control plane spare the Node,
// is the group suspended or frozen or its window closed, has the budget a place, whose turn is it. Then it records the admission (of two concurrent
// writers, the API server accepts only one) and acquires the lease. The first disruptive write has to follow at once, with the bounded context. That
// context ends BeginWithin after the admission, because another leader does not know of a later write. Work that has begun asks as well, for the
// quorum and to renew the lease. The error is a conflict if another writer was faster; then nothing has begun.
func (b *Budgets) Begin(ctx context.Context, request *Request) (permit Permit, bounded context.Context, err error) {
	bounded, err = b.begin(ctx, request, &permit)
	if err != nil || !permit.Allowed {
		permit.Done()
		return permit, ctx, err
	}
	return permit, bounded, nil
}

func (b *Budgets) begin(ctx context.Context, request *Request, permit *Permit) (bounded context.Context, err error) {
	if held, err := request.heldByOther(ctx); err != nil || held != nil {
		permit.hold(held, b.now(request))
		return nil, err
	}
	if request.Protected != nil && request.Guard != nil {
		ctx, permit.unlock = request.Guard.Lock(ctx)
		if err := request.checkQuorum(ctx, permit); err != nil || permit.Reason != "" {
			return nil, errors.Join(err, request.release(ctx))
		}
	}
	admitted, err := b.admit(ctx, request, permit)
	switch {
	case err != nil:
		return nil, err
	case !permit.Allowed:
		return nil, request.release(ctx)
	}
	if err := b.acquire(ctx, request, permit, admitted); err != nil {
		return nil, err
	}
	left := plan.BeginWithin
	if !admitted.IsZero() {
		left -= b.Clock.Since(admitted)
	}
	bounded, permit.cancel = context.WithTimeout(ctx, left)
	return bounded, nil
}

func (r *Request) heldByOther(ctx context.Context) (*nodelease.AlreadyHeldError, error) {
	if r.Leases == nil || r.Target == nil {
		return nil, nil
	}
	return r.Leases.HeldByOther(ctx, r.Target.Name)
}

// hold has a request wait for another holder of the lease.
func (p *Permit) hold(held *nodelease.AlreadyHeldError, now time.Time) {
	if held != nil {
		p.Held = held
		// Without the time at which it expires, which changes with every renewal.
		p.deny(plan.ReasonLease, fmt.Sprintf("the lease of node %s is held by %q", held.Node, held.Holder), delay.UntilLease(held.Until, now))
	}
}

func (r *Request) checkQuorum(ctx context.Context, permit *Permit) (err error) {
	denial := ""
	if r.Peer != nil {
		denial, err = r.Peer(ctx)
	}
	if err == nil && denial == "" {
		denial, err = r.Guard.Check(ctx, r.Protected)
	}
	switch {
	case status.Classify(err) == status.Denied:
		permit.deny(plan.ReasonQuorumUnknown, err.Error(), delay.Denied)
		return nil
	case denial != "":
		permit.deny(plan.ReasonQuorum, denial, delay.Quorum)
	}
	return err
}

// release releases a lease that keeps others from a Node on which the work has not begun.
func (r *Request) release(ctx context.Context) error {
	if r.Leases == nil || r.Target == nil || r.Borrowed || r.Begun || r.Kept {
		return nil
	}
	_, err := r.Leases.ReleaseFor(ctx, r.Target.Name, r.purpose())
	return err
}

// acquire acquires the lease. A process that was stopped for too long after the admission may not be the leader any more, and does not begin.
func (b *Budgets) acquire(ctx context.Context, request *Request, permit *Permit, admitted time.Time) (err error) {
	if request.Leases != nil && request.Target != nil && !request.Borrowed {
		purpose := request.purpose()
		purpose.Group = permit.Group
		permit.Renewal, err = request.Leases.AcquireFor(ctx, request.Target, purpose)
		var held *nodelease.AlreadyHeldError
		if errors.As(err, &held) {
			permit.hold(held, b.now(request))
			return nil
		}
		permit.LeaseFailed = err != nil
	}
	if err == nil && !admitted.IsZero() && b.Clock.Now().Sub(admitted) > plan.BeginWithin {
		permit.deny(plan.ReasonQueued, "the admission is too old", time.Millisecond)
	}
	return err
}

func (b *Budgets) now(request *Request) time.Time {
	if b == nil {
		return request.Leases.Clock.Now()
	}
	return b.Clock.Now()
}

// admit asks the budget, and records the admission. admitted is when that was written; zero where nothing is recorded.
func (b *Budgets) admit(ctx context.Context, request *Request, permit *Permit) (admitted time.Time, err error) {
	name, err := b.groupOf(ctx, request)
	if err == nil && name == "" && !request.Begun {
		return time.Time{}, b.admitWithoutGroup(ctx, request, permit)
	}
	if err != nil || request.Begun {
		permit.Answer = plan.Answer{Allowed: err == nil}
		return time.Time{}, err
	}
	permit.Group = name
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return time.Time{}, fmt.Errorf("asking NodeGroup %s for Node %s: %w", name, request.Node, err)
	}
	defer g.unlock()
	in, err := b.decide(ctx, g, request, permit)
	if err != nil || !permit.Allowed || permit.Admission == nil {
		return time.Time{}, err
	}
	if admitted, err = b.record(ctx, g, in, request, permit); err != nil {
		return admitted, fmt.Errorf("admitting Node %s in NodeGroup %s: %w", request.Node, name, err)
	}
	return admitted, nil
}

// joinTime is how long after its registration a Node waits for its Machine before its disruption. A kubelet writes the providerID and the addresses
// of its Node, and cannot delay the disruption for longer.
const joinTime = time.Minute

// admitWithoutGroup allows the disruption of a Node that belongs to no group, unless the Node is about to get its Machine, and with that perhaps its
// group: disrupted before, the Node would come into the group without a place in the budget.
func (b *Budgets) admitWithoutGroup(ctx context.Context, request *Request, permit *Permit) error {
	permit.Answer = plan.Answer{Allowed: true}
	if b == nil || b.Joining == nil || request.Target == nil {
		return nil
	}
	if registered, now := request.Target.CreationTimestamp.Time, b.Clock.Now(); now.Sub(registered) >= joinTime || !bounded.IsPossible(registered, now) {
		return nil
	}
	machine, err := b.Joining(ctx, request.Target)
	switch {
	case err != nil:
		permit.Answer = plan.Answer{}
		return fmt.Errorf("looking for the Machine of Node %s: %w", request.Node, err)
	case machine != "":
		permit.deny(plan.ReasonJoining, fmt.Sprintf("Node %s has just registered, and waits for its Machine %s", request.Node, machine), delay.Joining)
	}
	return nil
}

// decide decides about a request. Remediation requests are not watched: what is allowed is decided again after they were listed anew.
func (b *Budgets) decide(ctx context.Context, g *group, request *Request, permit *Permit) (in *plan.Input, err error) {
	now := b.Clock.Now()
	for _, since := range []time.Time{now.Add(-requestsAge), now} {
		if in, err = b.observeFor(ctx, g, request, since); err != nil {
			return nil, err
		}
		permit.Answer = g.decide(in, &request.Request)
		if !permit.Allowed || permit.Admission == nil || b.Requests == nil {
			break
		}
	}
	return in, nil
}

// errMembership is the cause of the conflict for a Node that the caller sees, and that is not a member of the group that it was in a moment ago.
var errMembership = errors.New("its Node has changed its group, or the membership does not show it yet")

// observeFor is observe for a request. A member that is missing counts as a Node that is gone, whose disruption takes no place: it must not be one
// that has just joined another group.
func (b *Budgets) observeFor(ctx context.Context, g *group, request *Request, since time.Time) (*plan.Input, error) {
	in, err := b.observe(ctx, g, since)
	if err == nil && in.Members != nil && request.Target != nil && !in.Members.Has(request.Target.Name, request.Target.UID) {
		return nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodegroups").GroupResource(), g.name, errMembership)
	}
	return in, err
}

// record writes an admission, unless that has been done a moment ago and the lease of the Node shows the work since: what the cache has of an
// admission another writer may have removed.
func (b *Budgets) record(ctx context.Context, g *group, in *plan.Input, request *Request, permit *Permit) (admitted time.Time, err error) {
	key := plan.KeyOf(permit.Admission)
	if at, found := g.admitted[key]; found && shows(in.Disrupted, request) > shows(in.Admissions, request) && in.Now.Sub(at) < plan.BeginWithin {
		return at, nil
	}
	permit.Admission.Time = metav1.NewTime(in.Now).Rfc3339Copy()
	if err := b.write(ctx, g, in.Group, admit(in.Admissions, *permit.Admission)); err != nil {
		return admitted, err
	}
	g.admit(key, in.Now)
	return in.Now, nil
}

// shows counts the disruptions that match a request.
func shows(disrupted []v1alpha1.Reservation, request *Request) (count int) {
	for i := range disrupted {
		if request.Matches(&disrupted[i]) {
			count++
		}
	}
	return count
}

// HasPlace reports whether work that has begun has its place in the budget of the Node's current group. The Node may have joined this group since the
// work began, and the rest of the work may make the Node unavailable.
func (b *Budgets) HasPlace(ctx context.Context, request *Request) (bool, error) {
	name, err := b.groupOf(ctx, request)
	if err != nil || name == "" {
		return err == nil, err
	}
	purpose, err := request.Leases.PurposeOf(ctx, request.Node)
	return err == nil && (purpose.Group == name || purpose.Capability == ""), err
}

func (b *Budgets) groupOf(ctx context.Context, request *Request) (string, error) {
	if b == nil {
		return "", nil
	}
	name, err := b.Membership.GroupOf(ctx, request.Node)
	if err != nil {
		return "", fmt.Errorf("finding the NodeGroup of Node %s: %w", request.Node, err)
	}
	return name, nil
}

// End says that the work on a Node is over, or that a request is not made again. It releases the lease if the request has Leases. What the cluster
// shows counts on; nothing else has to be ended.
func (b *Budgets) End(ctx context.Context, request *Request) error {
	return b.finish(ctx, request, true)
}

// Withdraw is End for a request that was admitted, and whose first write was rejected: no disruption has begun, and a remediation has not kept the
// interval before the next one.
func (b *Budgets) Withdraw(ctx context.Context, request *Request) error {
	return b.finish(ctx, request, false)
}

func (b *Budgets) finish(ctx context.Context, request *Request, begun bool) error {
	over := false
	if request.Leases != nil {
		var err error
		if over, err = request.Leases.ReleaseFor(ctx, request.Node, request.purpose()); err != nil {
			return err
		}
	}
	name, err := b.groupOf(ctx, request)
	if err != nil || name == "" {
		return err
	}
	return b.end(ctx, b.group(name), request, over, begun)
}

// end has a group know that work is over, or has not begun.
func (b *Budgets) end(ctx context.Context, g *group, request *Request, over, begun bool) error {
	if err := g.lock(ctx); err != nil {
		return err
	}
	defer g.unlock()
	g.drop(request.Keys()...)
	observed, err := b.latest(ctx, g)
	if apierrors.IsConflict(err) {
		return nil // the group is gone
	}
	if err != nil {
		return err
	}
	now := b.Clock.Now()
	for _, admission := range plan.FreshAdmissions(observed, now) {
		if key := plan.KeyOf(&admission); request.Matches(&admission) && g.ended[key].IsZero() {
			g.ended[key], over = now, true
			if !begun {
				g.withdraw(&admission)
			}
		}
	}
	if over && observed.Spec.Disruption != nil {
		if begun {
			g.returned[request.Node] = returned{request.UID, now}
		}
		b.changed.Emit(g.name)
	}
	return nil
}
