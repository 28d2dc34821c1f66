// Package plan is `kubectl drover plan`: what Drover would change.
package plan

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
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
	command := &cobra.Command{
		Use:   "plan [MACHINESET... | nodegroup/NAME...]",
		Short: "Show what Drover would change on Machines and Nodes",
		Long: `Preview what Drover would change on the Machines and Nodes of MachineSets, and on the Nodes of NodeGroups. The command changes nothing.
Without names it plans all MachineSets of the namespace and all NodeGroups.

Machines and Nodes with the same changes are shown as one group. Each line starts with a sign: + (added), ~ (changed), - (removed),
= (stays as it is; only the ownership record changes) or ! (not written, with the reason).

With -f, the command plans the MachineSets or NodeGroups of the files as if kubectl apply had applied them; it plans only these unless you name
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
		RunE:              shared.RunE(o.run, &o.output, &o.protect),
		ValidArgsFunction: shared.CompleteGroups(),
	}
	o.output.AddFlags(command)
	o.preview.addFlags(command)
	command.Flags().StringVar(&o.maintenance, "maintenance", "", "Show which pods a maintenance of this node would evict, and which would block it")
	o.AddAllNamespaces(command)
	o.protect.AddFlags(command.Flags())
	return command
}

func (o *options) run(ctx context.Context, c client.WithWatch, names []string) error {
	if o.maintenance != "" {
		if len(names) > 0 || o.preview.given() {
			return cmdutil.UsageError("--maintenance takes a node; leave out MachineSets, NodeGroups and files")
		}
		return maintenance.Plan(ctx, o.Options, c, &o.output, o.maintenance)
	}
	groups, err := groupNames(names)
	if err != nil {
		return err
	}
	infos, err := o.preview.read(o.Options)
	if err != nil {
		return err
	}
	if len(groups) > 0 || len(names) == 0 && nodeGroups.isIn(infos) && !machineSets.isIn(infos) {
		list, err := o.planGroups(ctx, c, groups, infos)
		return o.print(list, func(text *cmdutil.Text) { drawGroups(text, list.Items) }, err, list.Changes())
	}
	return o.planSetsAndGroups(ctx, c, names, infos)
}

// planSetsAndGroups shows what would change for MachineSets and, unless MachineSets or files are given, for all NodeGroups.
func (o *options) planSetsAndGroups(ctx context.Context, c client.WithWatch, names []string, infos []*resource.Info) error {
	list, err := o.planSets(ctx, c, names, infos)
	if len(names) == 0 && len(infos) == 0 && (err == nil || cmdutil.IsNotServed(err)) {
		list.NodeGroups, err = o.planAllGroups(ctx, c, err)
	}
	err = cmdutil.SuggestGroup(ctx, c, err, names...)
	return o.print(&list, func(text *cmdutil.Text) { draw(text, list) }, err, list.Changes())
}

// print prints a plan, unless making it has failed.
func (o *options) print(document any, draw func(*cmdutil.Text), err error, changes bool) error {
	if err == nil {
		err = o.output.Print(o.Out, document, draw)
	}
	if err == nil && changes {
		return cmdutil.ErrChanges
	}
	return err
}

// planSets returns what would change for MachineSets.
func (o *options) planSets(ctx context.Context, c client.WithWatch, names []string, infos []*resource.Info) (view.PlanList, error) {
	none := view.NewPlanList(plan.Survey{})
	manifests, err := o.manifests(infos)
	if err != nil {
		return none, err
	}
	objects, err := o.Objects(ctx, c)
	if err != nil {
		return none, err
	}
	all := len(names) == 0
	for _, manifest := range manifests {
		if err := o.check(ctx, c, manifest); err != nil {
			return none, err
		}
		if err := o.apply(&objects, manifest); err != nil {
			return none, err
		}
		if all {
			names = append(names, manifest.content.GetName())
		}
	}
	objects.GroupLayerOf, objects.GroupsUnknown = cmdutil.GroupLayerOf(ctx, c, &objects)
	survey, err := o.Survey(objects, &o.protect, names)
	if err != nil {
		return none, err
	}
	list := view.NewPlanList(survey)
	return list, o.addReplacements(ctx, c, &objects, &list)
}

// planAllGroups returns what would change for all NodeGroups. noSets is nil, or says that the cluster serves no MachineSets: then NodeGroups are all
// that it has, and must be readable.
func (o *options) planAllGroups(ctx context.Context, c client.WithWatch, noSets error) ([]*view.NodeGroupPlan, error) {
	all, err := cmdutil.List[*v1alpha1.NodeGroup](ctx, c, "")
	switch {
	case noSets != nil && cmdutil.IsNotServed(err):
		return nil, noSets
	case noSets != nil && err != nil:
		return nil, err
	case len(all) == 0:
		return nil, nil
	}
	names := make([]string, len(all))
	for i, group := range all {
		names[i] = group.Name
	}
	slices.Sort(names)
	list, err := o.planGroups(ctx, c, names, nil)
	return list.Items, err
}

// apply changes the objects as applying a manifest would.
func (o *options) apply(objects *plan.Objects, manifest manifest) error {
	warnings, err := manifest.apply(objects)
	for _, warning := range warnings {
		if err := o.Warn("%s", warning); err != nil {
			return err
		}
	}
	return err
}

// manifests returns the MachineSets of -f; nil without files.
func (o *options) manifests(infos []*resource.Info) ([]manifest, error) {
	if !o.preview.given() {
		return nil, nil
	}
	found, err := machineSets.manifests(o.Options, infos)
	if err != nil {
		return nil, err
	}
	return found, o.useNamespaceOf(found)
}

// useNamespaceOf uses the namespace of the manifests if no namespace was given.
func (o *options) useNamespaceOf(manifests []manifest) error {
	for i := range manifests {
		m := &manifests[i]
		switch own := m.content.GetNamespace(); {
		case own == "" && o.AllNamespaces:
			m.content.SetNamespace(cmdutil.DefaultNamespace)
		case own == "":
			m.content.SetNamespace(o.Namespace())
		case o.AllNamespaces || own == o.Namespace():
		case i > 0 || o.GivenNamespace() != "":
			return fmt.Errorf("%s: MachineSet %q is in namespace %q, not %q; use -n %[3]s, or --all-namespaces for files of several namespaces",
				m.source, m.content.GetName(), own, o.Namespace())
		default:
			o.Config.Namespace = &own
		}
	}
	return nil
}
