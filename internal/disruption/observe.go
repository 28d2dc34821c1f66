package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// observe reads what a decision about a group needs, with remediation requests as they were listed since a time.
func (b *Budgets) observe(ctx context.Context, g *group, since time.Time) (*plan.Input, error) {
	observed, err := b.latest(ctx, g)
	if err != nil || observed.Spec.Disruption == nil {
		g.sweep(b.Clock.Now())
		return &plan.Input{Now: b.Clock.Now(), Group: observed, Waiting: &g.queue}, err
	}
	nodes, err := b.Membership.Members(ctx, g.name)
	if err != nil {
		return nil, fmt.Errorf("listing the Nodes of NodeGroup %s: %w", g.name, err)
	}
	return b.observeNodes(ctx, g, observed, g.view.update(nodes, observed.Spec.Disruption.UnavailableTaints), since)
}

// observeNodes reads what a decision about a group with these members needs. All of it is what the cluster shows; the memory of this process adds how
// long a Node has been available since its disruption.
func (b *Budgets) observeNodes(
	ctx context.Context, g *group, observed *v1alpha1.NodeGroup, members *plan.Members, since time.Time,
) (*plan.Input, error) {
	observed = g.remembering(observed, b.Clock.Now())
	in := &plan.Input{Now: b.Clock.Now(), Group: observed, Waiting: &g.queue, Members: members, Window: b.Windows(observed, b.Clock.Now())}
	g.sweep(in.Now)
	if err := b.addLeases(ctx, in); err != nil {
		return nil, err
	}
	pace := b.Pace(observed)
	machines, err := b.Membership.Machines(ctx, g.name, in.Now.Add(-pace.MinReady))
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of NodeGroup %s: %w", g.name, err)
	}
	requested, err := b.requestsOf(ctx, in, machines.Namespaces, since)
	if err != nil {
		return nil, err
	}
	machines.Requested = append(slices.Clone(machines.Requested), requested...)
	in.Admissions = g.admissions(in, &machines)
	leased := len(in.Disrupted)
	in.Disrupted = append(in.Disrupted, in.Admissions...)
	in.AddMachines(&machines, pace)
	g.addReturning(in, slices.Concat(in.Disrupted[:leased], in.Disrupted[leased+len(in.Admissions):]), pace.MinReady)
	return in, nil
}

// admissions returns the admissions that count. It leaves out admissions of a Machine that is gone or is being deleted, and of work that this process
// has seen end: they show in other ways.
func (g *group) admissions(in *plan.Input, machines *plan.Machines) (fresh []v1alpha1.Reservation) {
	for _, admission := range plan.FreshAdmissions(in.Group, in.Now) {
		if ended, found := g.ended[plan.KeyOf(&admission)]; found && !admission.Time.After(ended) {
			continue
		}
		machine, isMachine := plan.ParseMachineName(admission.Object)
		if isMachine && !in.Members.Has(admission.Node, admission.UID) && (machines.IsActive == nil || !machines.IsActive(machine, admission.ObjectUID)) {
			continue
		}
		fresh = append(fresh, admission)
	}
	return fresh
}

// addReturning adds the Nodes that have been available for too short a time since their disruption. shown does not include Nodes that were only
// admitted, because the end of an admission says nothing about the Node.
func (g *group) addReturning(in *plan.Input, shown []v1alpha1.Reservation, minReady time.Duration) {
	disrupted := map[string]types.UID{}
	for i := range shown {
		if r := &shown[i]; in.Members.Has(r.Node, r.UID) {
			disrupted[r.Node] = r.UID
		}
	}
	for node, uid := range g.disrupted {
		if disrupted[node] != uid {
			g.returned[node] = returned{uid, in.Now}
		}
	}
	g.disrupted = disrupted
	for node, back := range g.returned {
		switch member := in.Members.Get(node); {
		case member.UID != back.uid, in.Now.Sub(back.at) >= minReady, back.at.After(in.Now):
			delete(g.returned, node)
		case disrupted[node] == "" && in.Signs[node] == "":
			if member.Sign != "" {
				back.at = in.Now
				g.returned[node] = back
			}
			in.Sign(node, plan.SignReturning)
		}
	}
}

// errGone is the cause of the conflict for a NodeGroup that the membership knows and the cache does not.
var errGone = errors.New("it was deleted, or the cache does not show it yet")

// latest returns a NodeGroup as the cache has it, or as the last own write of it has left it, if the cache does not show that yet. Another writer may
// have changed it since; then a write of what was decided gets a conflict.
func (b *Budgets) latest(ctx context.Context, g *group) (*v1alpha1.NodeGroup, error) {
	// This comes first: the cache may catch up after a group was read, and that group would be outdated.
	pending := false
	if b.Written != nil && g.latest != nil {
		var err error
		if pending, err = b.Written.Pending(ctx, g.name); err != nil {
			return nil, fmt.Errorf("reading NodeGroup %s: %w", g.name, err)
		}
	}
	cached := &v1alpha1.NodeGroup{}
	err := b.Reader.Get(ctx, types.NamespacedName{Name: g.name}, cached)
	switch {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodegroups").GroupResource(), g.name, errGone)
	case err != nil:
		return nil, fmt.Errorf("reading NodeGroup %s: %w", g.name, err)
	case pending && cached.UID == g.latest.UID:
		return g.latest, nil
	}
	g.latest = nil
	return cached, nil
}

// addLeases adds the Nodes whose lease is held: what a lease says that Drover has it for is disrupted for that, and every other lease is a sign.
func (b *Budgets) addLeases(ctx context.Context, in *plan.Input) error {
	list := &coordinationv1.LeaseList{}
	if err := b.Reader.List(ctx, list, client.InNamespace(nodelease.Namespace())); err != nil {
		return fmt.Errorf("listing the leases of nodes: %w", err)
	}
	for i := range list.Items {
		lease := &list.Items[i]
		// The name of a lease contains the name of its Node in lower case. Node names are in lower case anyway.
		node, isNode := strings.CutPrefix(lease.Name, nodelease.Name(""))
		if !isNode || nodelease.HolderOf(lease) == "" || nodelease.Decide(lease, "", in.Now) != nodelease.Wait {
			continue
		}
		member := in.Members.Get(node)
		purpose := nodelease.PurposeOf(lease)
		capability := v1alpha1.Capability(purpose.Capability)
		switch {
		case member.UID == "":
		case !plan.IsCapability(capability) || len(purpose.Object) > maxObject || len(purpose.UID) > maxUID || lease.Spec.AcquireTime == nil:
			in.Sign(node, plan.SignLeased)
		default:
			in.Disrupted = append(in.Disrupted, v1alpha1.Reservation{
				Node: node, UID: member.UID, Capability: capability, Object: purpose.Object, ObjectUID: purpose.UID,
				Time: metav1.NewTime(lease.Spec.AcquireTime.Time).Rfc3339Copy(),
			})
		}
	}
	return nil
}

// maxObject and maxUID bound what status.reservations takes over from a lease, as its schema does.
const maxObject, maxUID = 600, 64
