package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/metadata/plan"
)

const planExample = `  # What would change in all pools
  kubectl drover plan

  # What would change in one pool, with the names of all nodes
  kubectl drover plan workers -o wide

  # What would change if a manifest were applied
  kubectl drover plan -f workers.yaml
  kustomize build . | kubectl drover plan -f -

  # What a maintenance of a node would meet
  kubectl drover plan --maintenance worker-1`

type planCommand struct {
	*options
	output  output
	preview preview
	// maintenance is the node whose maintenance is planned, empty for a plan of pools.
	maintenance string
}

func newPlanCommand(o *options) *cobra.Command {
	p := &planCommand{options: o}
	command := &cobra.Command{
		Use:   "plan [POOL...]",
		Short: "Show what Drover would change on Machines and Nodes",
		Long: `Show what Drover would change on the Machines and Nodes of the pools (MachineSets), without changing anything.

Machines and Nodes with the same changes are shown as one group. Lines are marked + (added), ~ (changed), - (removed),
= (stays as it is, only the record of ownership changes) and ! (not written, with the reason).

With -f the MachineSets of the files are taken as if kubectl apply had applied them; without POOL only they are planned.

With --maintenance the pods of a node are shown that a maintenance would evict, and those that could not leave, with the reason.

The plan is made from the objects of the cluster alone: Drover does not have to be installed.

Exit codes: 0 nothing would change, 2 something would change, 1 an error.`,
		Example:           planExample,
		RunE:              run(p.run),
		ValidArgsFunction: o.completePools,
	}
	p.output.addFlags(command)
	p.preview.addFlags(command)
	command.Flags().StringVar(&p.maintenance, "maintenance", "", "Show what a maintenance of this node would evict, and what would block it")
	o.addAllNamespaces(command)
	o.addProtect(command)
	return command
}

func (p *planCommand) run(ctx context.Context, names []string) error {
	if err := p.output.validate(); err != nil {
		return err
	}
	if p.maintenance != "" {
		return p.planMaintenance(ctx, names)
	}
	return p.planPools(ctx, names)
}

func (p *planCommand) planPools(ctx context.Context, names []string) error {
	protected, err := p.protected()
	if err != nil {
		return err
	}
	manifests, err := p.manifests()
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
	if err := p.overlay(&objects, manifests); err != nil {
		return err
	}
	survey, err := choose(plan.SurveyOf(objects, protected, p.now()), p.chosen(names, manifests), p.where())
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

// manifests reads the files of -f; nil without them.
func (p *planCommand) manifests() ([]manifest, error) {
	if !p.preview.asked() {
		return nil, nil
	}
	found, err := p.preview.read(p.options)
	if err != nil {
		return nil, err
	}
	return found, p.settleNamespace(found)
}

// settleNamespace looks where the manifests belong when no namespace was asked for.
func (p *planCommand) settleNamespace(manifests []manifest) error {
	asked := p.config.Namespace != nil && *p.config.Namespace != ""
	for i := range manifests {
		m := &manifests[i]
		switch own := m.content.GetNamespace(); {
		case own == "" && p.allNamespaces:
			m.content.SetNamespace(DefaultNamespace)
		case own == "":
			m.content.SetNamespace(p.namespace())
		case p.allNamespaces || own == p.namespace():
		case asked || i > 0:
			return fmt.Errorf("%s: MachineSet %q is of namespace %q, not %q; give -n %[3]s, or --all-namespaces for files of several namespaces",
				m.source, m.content.GetName(), own, p.namespace())
		default:
			p.config.Namespace = &own
		}
	}
	return nil
}

// overlay puts the manifests in the place of the MachineSets of the cluster.
func (p *planCommand) overlay(objects *plan.Objects, manifests []manifest) error {
	for _, manifest := range manifests {
		warnings, err := manifest.overlay(objects)
		if err != nil {
			return err
		}
		for _, warning := range warnings {
			if err := printf(p.ErrOut, "Warning: %s\n", warning); err != nil {
				return err
			}
		}
	}
	return nil
}

// chosen are the pools to plan: those named, else those of the files, else all.
func (p *planCommand) chosen(names []string, manifests []manifest) []string {
	if len(names) > 0 {
		return names
	}
	for _, manifest := range manifests {
		names = append(names, manifest.content.GetName())
	}
	return names
}

func (p *planCommand) show(list PlanList) error {
	if p.output.table() {
		return drawPlan(p.Out, list, p.output.wide())
	}
	return p.output.print(p.Out, &list)
}
