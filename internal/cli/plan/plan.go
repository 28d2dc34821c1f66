// Package plan is `kubectl drover plan`: what Drover would change.
package plan

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/maintenance"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/metadata/plan"
)

type options struct {
	*cmdutil.Options
	output  cmdutil.OutputFlags
	protect cmdutil.ProtectFlags
	preview preview
	// maintenance is the node whose maintenance is planned, empty for a plan of MachineSets.
	maintenance string
}

// NewCommand returns the command.
func NewCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared}
	command := shared.Command(&cobra.Command{
		Use:   "plan [MACHINESET... | nodegroup/NAME...]",
		Short: "Show what Drover would change on Machines and Nodes",
		Long: `Preview what Drover would change on the Machines and Nodes of MachineSets, and on the Nodes of NodeGroups. The command changes nothing.
Without names it plans all MachineSets of the namespace and all NodeGroups.

Machines and Nodes with the same changes are shown as one group. Each line starts with a sign: + (added), ~ (changed), - (removed),
= (stays as it is; only the ownership record changes) or ! (not written, with the reason).

With -f, the command plans the MachineSets and NodeGroups of the files as if kubectl apply had applied them; it plans only these unless you name
others. The API server validates them in a dry run, if you may write them.

Of a NodeGroup it shows the waves in their order, the budget and the window of spec.disruption, the Pods and PersistentVolumes that require labels
which would go, and, for each Node that would get a taint with the effect NoExecute, the Pods that would have to leave before, the
PodDisruptionBudgets that block them, and the Pods of DaemonSets that would be lost. If spec.rollout.noExecute has Kubernetes delete Pods, it shows
which ones.

If a NodeGroup replaces outdated Machines, its plan and those of its MachineSets show which Machines would be replaced, in which order, how many at a
time, and what they wait for.

With --maintenance, it shows which pods a maintenance of the node would evict, and which could not leave, with the reason.

The command needs only the objects of the cluster: you can run it where Drover is not installed.

Exit codes: 0 nothing would change, 2 something would change, 1 an error.`,
		Example: `  # Show what would change in all MachineSets and NodeGroups
  kubectl drover plan

  # Show what would change in one MachineSet, with the names of all nodes
  kubectl drover plan workers -o wide

  # Show what would change if a manifest were applied
  kubectl drover plan -f workers.yaml
  kustomize build . | kubectl drover plan -f -

  # Show in which waves a changed NodeGroup would reach its nodes
  kubectl drover plan nodegroup/batch -f batch.yaml

  # Show which pods a maintenance of a node would evict
  kubectl drover plan --maintenance worker-1`,
		ValidArgsFunction: shared.Complete(cmdutil.MachineSetKind, cmdutil.NodeGroupKind),
	}, o.run, &o.output, &o.preview, &o.protect)
	command.Flags().StringVar(&o.maintenance, "maintenance", "", "Show which pods a maintenance of this node would evict, and which would block it")
	o.AddAllNamespaces(command)
	return command
}

func (o *options) run(ctx context.Context, c client.WithWatch, args []string) error {
	if o.maintenance != "" {
		if len(args) > 0 || o.preview.given() {
			return cmdutil.UsageError("--maintenance takes a node; leave out MachineSets, NodeGroups and files")
		}
		return maintenance.Plan(ctx, o.Options, c, &o.output, o.maintenance)
	}
	sets, groups, err := o.SetsAndGroups(args)
	if err != nil {
		return err
	}
	manifests, err := o.preview.manifests(o.Options)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		sets, groups = namesOf(manifests)
	}
	list, err := o.plan(ctx, c, manifests, sets, groups)
	if err != nil {
		return cmdutil.SuggestGroup(ctx, c, err, args...)
	}
	var document any = list
	if len(sets) == 0 && len(groups) > 0 {
		document = &view.NodeGroupPlanList{TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "NodeGroupPlanList"}, Items: list.NodeGroups}
	}
	if err := o.output.Print(o.Options, document, func(text *cmdutil.Text) { draw(text, list) }); err != nil {
		return err
	}
	if list.Changes() {
		return cmdutil.ErrChanges
	}
	return nil
}

// plan returns what would change for the named MachineSets and NodeGroups, or, without names, for all, when manifests have been applied.
func (o *options) plan(ctx context.Context, c client.Client, manifests []manifest, sets, groups []string) (*view.PlanList, error) {
	all := len(sets)+len(groups) == 0
	before, err := o.Read(ctx, c, all || len(groups) > 0, selectedNamespaces(manifests)...)
	if err == nil {
		err = before.Missing(sets, groups)
	}
	if err != nil {
		return nil, err
	}
	after := *before
	for _, manifest := range manifests {
		if err := o.apply(ctx, c, &after, manifest); err != nil {
			return nil, err
		}
	}
	if all {
		for _, group := range after.Groups {
			groups = append(groups, group.Name)
		}
		slices.Sort(groups)
	}
	list, membership := view.NewPlanList(plan.Survey{}), after.Membership(ctx)
	if all || len(sets) > 0 {
		if list, err = o.planSets(ctx, &after, membership, sets); err != nil {
			return nil, err
		}
	}
	var earlier *cmdutil.Membership
	if len(manifests) > 0 {
		earlier = before.Membership(ctx)
	}
	return list, o.addGroups(ctx, c, list, &after, membership, earlier, groups)
}

// planSets returns what would change for the named MachineSets, or for all.
func (o *options) planSets(ctx context.Context, s *cmdutil.Snapshot, membership *cmdutil.Membership, names []string) (*view.PlanList, error) {
	survey, err := o.Survey(ctx, s, &o.protect, names)
	if err != nil {
		return nil, err
	}
	list := view.NewPlanList(survey)
	return list, o.addReplacements(ctx, s, membership, list)
}
