package plugin

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/metadata/plan"
)

const planExample = `  # What would change in all pools
  kubectl drover plan

  # What would change in one pool, with the names of all nodes
  kubectl drover plan workers -o wide

  # What would change if a manifest were applied
  kubectl drover plan -f workers.yaml`

type planCommand struct {
	*options
	output output
}

func newPlanCommand(o *options) *cobra.Command {
	p := &planCommand{options: o}
	command := &cobra.Command{
		Use:   "plan [POOL...]",
		Short: "Show what Drover would change on Machines and Nodes",
		Long: `Show what Drover would change on the Machines and Nodes of the pools (MachineSets), without changing anything.

Machines and Nodes with the same changes are shown as one group. Lines are marked + (added), ~ (changed), - (removed),
= (stays as it is, only the record of ownership changes) and ! (not written, with the reason).

The plan is made from the objects of the cluster alone: Drover does not have to be installed.

Exit codes: 0 nothing would change, 2 something would change, 1 an error.`,
		Example:           planExample,
		RunE:              run(p.run),
		ValidArgsFunction: o.completePools,
	}
	p.output.addFlags(command)
	o.addAllNamespaces(command)
	o.addProtect(command)
	return command
}

func (p *planCommand) run(ctx context.Context, names []string) error {
	if err := p.output.validate(); err != nil {
		return err
	}
	protected, err := p.protected()
	if err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	objects, err := fetch(ctx, c, p.namespace())
	if err != nil {
		return err
	}
	survey, err := choose(plan.SurveyOf(objects, protected, p.now()), names, p.where())
	if err != nil {
		return err
	}
	list := planOf(survey)
	if err := p.show(list); err != nil {
		return err
	}
	if list.Summary.ToWrite > 0 {
		return errChanges
	}
	return nil
}

func (p *planCommand) show(list PlanList) error {
	if p.output.table() {
		return drawPlan(p.Out, list, p.output.wide())
	}
	return p.output.print(p.Out, &list)
}
