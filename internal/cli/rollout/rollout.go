// Package rollout is `kubectl drover rollout`: roll-outs of NodeGroups and MachineSets, in the manner of kubectl rollout. It also is `kubectl drover
// pause` and `kubectl drover resume`.
package rollout

import (
	"context"
	"errors"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// arguments is how the commands are used.
const arguments = "(nodegroup/NAME | MACHINESET)..."

// kinds have roll-outs.
var kinds = []cmdutil.Kind{cmdutil.MachineSetKind, cmdutil.NodeGroupKind}

// NewCommand returns the command.
func NewCommand(o *cmdutil.Options) *cobra.Command {
	command := cmdutil.NewGroup(&cobra.Command{
		Use:   "rollout",
		Short: "Follow, pause, resume and undo roll-outs of NodeGroups and MachineSets",
		Long: `Follow, pause, resume and undo roll-outs, as kubectl rollout does with those of Deployments.

Name a NodeGroup as nodegroup/NAME or ng/NAME, and a MachineSet by its name or as machineset/NAME.`,
		Example: `  # Wait until a change of a NodeGroup has reached its nodes
  kubectl drover rollout status nodegroup/batch

  # Give the nodes back what they carried before
  kubectl drover rollout undo nodegroup/batch`,
	})
	command.AddCommand(newStatusCommand(o), newHistoryCommand(o), newUndoCommand(o), newPauseRolloutCommand(o), newResumeRolloutCommand(o))
	return command
}

// command completes a command that calls do with each object that its arguments name. One that fails does not keep it from the others.
func command(
	o *cmdutil.Options, command *cobra.Command, kinds []cmdutil.Kind, do func(ctx context.Context, c client.WithWatch, target client.Object) error,
	flags ...cmdutil.FlagGroup,
) *cobra.Command {
	command.ValidArgsFunction = o.Complete(kinds...)
	return o.Command(command, func(ctx context.Context, c client.WithWatch, args []string) error {
		targets, err := o.Targets(args, kinds...)
		if err != nil {
			return err
		}
		if len(targets) == 0 {
			return cmdutil.UsageError("name at least one %s", cmdutil.UsageOf(kinds))
		}
		var failures []error
		for _, target := range targets {
			if err := read(ctx, c, target); err != nil {
				failures = append(failures, err)
				continue
			}
			failures = append(failures, do(ctx, c, target))
		}
		return errors.Join(failures...)
	}, flags...)
}

// read reads an object whose namespace and name are set.
func read(ctx context.Context, c client.Reader, target client.Object) error {
	switch target := target.(type) {
	case *v1alpha1.NodeGroup:
		return cmdutil.Get(ctx, c, target)
	case *machinev1beta1.Machine:
		return cmdutil.Get(ctx, c, target)
	case *corev1.Node:
		return cmdutil.Get(ctx, c, target)
	case *machinev1beta1.MachineSet:
		return cmdutil.SuggestGroup(ctx, c, cmdutil.Get(ctx, c, target), target.Name)
	}
	return nil
}

// resourceOf returns the resource and the name of an object as kubectl rollout has it in errors.
func resourceOf(target client.Object) string {
	kind, name, _ := strings.Cut(cmdutil.NameOf(target), "/")
	resource, group, _ := strings.Cut(kind, ".")
	return resource + "s." + group + ` "` + name + `"`
}
