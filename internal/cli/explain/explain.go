// Package explain is `kubectl drover explain`: who owns each label, annotation and taint of a node.
package explain

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
)

type options struct {
	*cmdutil.Options
	output  cmdutil.OutputFlags
	protect cmdutil.ProtectFlags
}

// NewCommand returns the command.
func NewCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared}
	command := &cobra.Command{
		Use:   "explain [node] NAME",
		Short: "Show who owns each label, annotation and taint of a node",
		Long: `Find out who owns a label, annotation or taint of a node: Drover, with the MachineSet or NodeGroup and the generation that it comes from, or
the field manager that wrote it. The command also compares each with what the MachineSet declares.

The writers of a taint are those of the whole list of taints: the API server records no others.`,
		Example: `  # Show who owns the labels, annotations and taints of a node
  kubectl drover explain node worker-1

  # Show all writers of each, and values in full
  kubectl drover explain worker-1 -o wide`,
		RunE: shared.RunE(o.run, &o.output, &o.protect),
		Args: nodeArgument,
		ValidArgsFunction: func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 || len(args) == 1 && args[0] != "node" {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return shared.Completion(func(ctx context.Context, c client.Client, typed string) ([]string, error) {
				names, err := cmdutil.NodeNames(ctx, c, typed)
				return append(names, "node"), err
			})(command, args, typed)
		},
	}
	o.output.AddFlags(command)
	o.AddAllNamespaces(command)
	o.protect.AddFlags(command.Flags())
	return command
}

// nodeArgument checks for NAME, node/NAME, or node NAME.
func nodeArgument(_ *cobra.Command, args []string) error {
	if len(args) == 2 && slices.Contains(cmdutil.NodeKind, args[0]) {
		args = args[1:]
	}
	if len(args) != 1 {
		return cmdutil.UsageError("explain takes the name of one node, not %d names", len(args))
	}
	if name, _ := cmdutil.CutKind(args[0], cmdutil.NodeKind); name == "" {
		return cmdutil.UsageError("the name of the node is empty")
	}
	return nil
}

func (o *options) run(ctx context.Context, c client.WithWatch, args []string) error {
	name, _ := cmdutil.CutKind(args[len(args)-1], cmdutil.NodeKind)
	node, err := cmdutil.GetNode(ctx, c, name)
	if err != nil {
		return err
	}
	objects := plan.Objects{Nodes: map[string]*corev1.Node{name: node}}
	var undeclared error
	objects.Sets, objects.Machines, undeclared = cmdutil.Declaring(ctx, c, o.Namespace())
	assignment, unknown := assignmentOf(ctx, c, node, &objects, undeclared)
	if assignment != nil {
		objects.GroupLayerOf = func(*corev1.Node) plan.GroupLayer { return assignment.GroupLayer(nil) }
	}
	survey := plan.SurveyOf(objects, o.protect.Protected(), o.Now())
	explanation := view.NewNodeExplanation(node, assignment, survey, o.protect.Protected(), o.Now())
	if undeclared != nil && !cmdutil.IsNotServed(undeclared) {
		// The Node itself has the ownership record; only what is declared is unknown.
		explanation.Notes = []string{"what is declared is unknown: " + undeclared.Error()}
	} else if undeclared == nil && explanation.Machine == "" && o.Namespace() != "" {
		explanation.Notes = append(explanation.Notes, "looked for its Machine in "+o.Where()+" only; use --all-namespaces to look everywhere")
	}
	if unknown != nil {
		explanation.Notes = append(explanation.Notes, "its NodeGroup is unknown: "+unknown.Error())
	}
	return o.output.Print(o.Out, &explanation, func(text *cmdutil.Text) { draw(text, explanation, o.Now()) })
}

// assignmentOf returns the assignment of a Node to its NodeGroup; nil where the cluster has no NodeGroups.
func assignmentOf(
	ctx context.Context, c client.Reader, node *corev1.Node, objects *plan.Objects, undeclared error,
) (*members.Assignment, error) {
	groups, err := cmdutil.List[*v1alpha1.NodeGroup](ctx, c, "")
	if err != nil {
		if cmdutil.IsNotServed(err) {
			return nil, nil
		}
		return nil, err
	}
	snapshot := &cmdutil.Snapshot{Groups: groups, Sets: objects.Sets, Machines: objects.Machines, Served: undeclared == nil}
	finder := snapshot.Finder()
	sorted, err := finder.Groups(ctx)
	if err != nil {
		return nil, err
	}
	assignment, err := finder.Assign(ctx, sorted, node)
	return &assignment, err
}
