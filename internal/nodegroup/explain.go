package nodegroup

import (
	"context"

	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// explainBudget adds to what is known of the budget why disruptions wait, and which Nodes are unavailable.
func (rc *reconciliation) explainBudget(ctx context.Context, budget *plan.Budget) (err error) {
	if budget == nil || budget.Waiting == 0 && budget.Unavailable <= budget.Limit {
		return nil
	}
	budget.Explanation, err = rc.Budgets.Explain(ctx, rc.group.Name, rc.members())
	return err
}
