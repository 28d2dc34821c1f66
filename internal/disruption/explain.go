package disruption

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/disruption/plan"
)

// Explain returns why the requests of a group with these Nodes wait, and which of the Nodes are unavailable. It is zero for a group without a budget.
func (b *Budgets) Explain(ctx context.Context, name string, nodes []*corev1.Node) (plan.Explanation, error) {
	g := b.group(name)
	if err := g.lock(ctx); err != nil {
		return plan.Explanation{}, err
	}
	defer g.unlock()
	observed, err := b.observe(ctx, g)
	if err != nil || observed.Group.Spec.Disruption == nil {
		return plan.Explanation{}, err
	}
	observed.Members = new(view).update(nodes, observed.Group.Spec.Disruption.UnavailableTaints)
	return plan.Explain(observed), nil
}
