// Package explain is `kubectl drover explain`: who owns each label, annotation and taint of a node.
package explain

import (
	"context"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/members"
)

type options struct {
	*cmdutil.Options
	output  cmdutil.OutputFlags
	protect cmdutil.ProtectFlags
}

// NewCommand returns the command.
func NewCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared}
	command := shared.Command(&cobra.Command{
		Use:   "explain [node] NAME",
		Short: "Show who owns each label, annotation and taint of a node",
		Long: `Find out who owns a label, annotation or taint of a node: Drover, with the MachineSet or NodeGroup and the generation that it comes from, or
the field manager that wrote it. The command also compares each with what the MachineSet declares.

The writers of a taint are those of the whole list of taints: the API server records no others.`,
		Example: `  # Show who owns the labels, annotations and taints of a node
  kubectl drover explain node worker-1

  # Show all writers of each, and values in full
  kubectl drover explain worker-1 -o wide`,
		ValidArgsFunction: func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 || len(args) == 1 && args[0] != "node" {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names, directive := shared.Complete(cmdutil.NodeKind)(command, args, typed)
			if len(args) > 0 || typed != "node"[:min(len(typed), len("node"))] {
				return names, directive
			}
			return append(names, "node"), directive
		},
	}, o.run, &o.output, &o.protect)
	o.AddAllNamespaces(command)
	return command
}

func (o *options) run(ctx context.Context, c client.WithWatch, args []string) error {
	name, err := o.OneNode(args...)
	if err != nil {
		return err
	}
	node, err := cmdutil.GetNode(ctx, c, name)
	if err != nil {
		return err
	}
	snapshot := &cmdutil.Snapshot{Nodes: []*corev1.Node{node}}
	snapshot.ReadGroups(ctx, c)
	snapshot.ReadSets(ctx, c, o.Namespace())
	var assignment *members.Assignment
	if snapshot.NoGroups == nil {
		assignment = snapshot.Membership(ctx).Of(ctx, node)
	}
	survey, err := o.Survey(ctx, snapshot, &o.protect, nil)
	if err != nil {
		return err
	}
	explanation := view.NewNodeExplanation(node, assignment, survey, o.protect.Protected(), o.Now())
	if snapshot.NoSets != nil && !cmdutil.IsNotServed(snapshot.NoSets) {
		// The Node itself has the ownership record; only what is declared is unknown.
		explanation.Notes = []string{"what is declared is unknown: " + snapshot.NoSets.Error()}
	} else if snapshot.NoSets == nil && explanation.Machine == "" && o.Namespace() != "" {
		explanation.Notes = append(explanation.Notes, "looked for its Machine in "+o.Where()+" only; use --all-namespaces to look everywhere")
	}
	if snapshot.NoGroups != nil && !cmdutil.IsNotServed(snapshot.NoGroups) {
		explanation.Notes = append(explanation.Notes, "its NodeGroup is unknown: "+snapshot.NoGroups.Error())
	}
	return o.output.Print(o.Options, &explanation, func(text *cmdutil.Text) { draw(text, explanation, o.Now()) })
}
