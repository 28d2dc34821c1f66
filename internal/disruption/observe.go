package disruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// observe reads what a decision about a group needs.
func (b *Budgets) observe(ctx context.Context, g *group) (*plan.Input, error) {
	observed, err := b.latest(ctx, g)
	if err != nil {
		return nil, err
	}
	observed = g.remembering(observed)
	in := &plan.Input{Now: b.Clock.Now(), Group: observed, Waiting: &g.queue}
	if observed.Spec.Disruption == nil {
		return in, nil
	}
	nodes, err := b.Membership.Members(ctx, g.name)
	if err != nil {
		return nil, fmt.Errorf("listing the Nodes of NodeGroup %s: %w", g.name, err)
	}
	in.Members = g.view.update(nodes, observed.Spec.Disruption.UnavailableTaints)
	if in.Leased, err = b.leased(ctx, in.Now); err != nil {
		return nil, err
	}
	in.Window = b.Windows(observed, in.Now)
	return in, nil
}

// errGone is the cause of the conflict for a NodeGroup that the membership knows and the cache does not.
var errGone = errors.New("it was deleted, or the cache does not show it yet")

// latest returns a NodeGroup as the cache has it, or as the last own write of it has left it, if the cache does not show that yet. Another writer may
// have changed it since; then a write of what was decided gets a conflict.
func (b *Budgets) latest(ctx context.Context, g *group) (*v1alpha1.NodeGroup, error) {
	// This comes first: a group that was read before the cache caught up is not the one that the cache has then.
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

// leased returns the names of the Nodes whose lease is held, by any holder.
func (b *Budgets) leased(ctx context.Context, now time.Time) (map[string]bool, error) {
	list := &coordinationv1.LeaseList{}
	if err := b.Reader.List(ctx, list, client.InNamespace(nodelease.Namespace())); err != nil {
		return nil, fmt.Errorf("listing the leases of nodes: %w", err)
	}
	leased := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		lease := &list.Items[i]
		// The name of a lease has that of its Node in lower case, as Node names are.
		node, isNode := strings.CutPrefix(lease.Name, nodelease.Name(""))
		if isNode && nodelease.HolderOf(lease) != "" && nodelease.Decide(lease, "", now) == nodelease.Wait {
			leased[node] = true
		}
	}
	return leased, nil
}
