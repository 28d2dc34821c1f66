// Package rollout is `kubectl drover rollout`: roll-outs of NodeGroups and MachineSets, in the manner of kubectl rollout.
package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// arguments is how the commands are used.
const arguments = "(nodegroup/NAME | MACHINESET)..."

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
	command.AddCommand(newStatusCommand(o), newHistoryCommand(o), newUndoCommand(o), newPauseCommand(o), newResumeCommand(o))
	return command
}

// each calls do with each object that the arguments name. One that fails does not keep it from the others.
func each(ctx context.Context, o *cmdutil.Options, c client.Reader, args []string, do func(context.Context, client.Object) error) error {
	targets, err := targets(args)
	if err != nil {
		return err
	}
	var failures []error
	for _, target := range targets {
		if err := read(ctx, o, c, target); err != nil {
			failures = append(failures, err)
			continue
		}
		failures = append(failures, do(ctx, target))
	}
	return errors.Join(failures...)
}

// targets returns the objects that the arguments name, as kubectl takes them: KIND/NAME, or a kind before names. Without a kind they are MachineSets.
func targets(args []string) ([]client.Object, error) {
	kind := ""
	if len(args) > 1 && slices.Contains(slices.Concat(cmdutil.NodeGroupKind, cmdutil.MachineSetKind), args[0]) {
		kind, args = args[0]+"/", args[1:]
	}
	if len(args) == 0 {
		return nil, cmdutil.UsageError("name at least one nodegroup/NAME or MACHINESET")
	}
	targets := make([]client.Object, 0, len(args))
	for _, arg := range args {
		var target client.Object = &v1alpha1.NodeGroup{}
		name, found := cmdutil.CutKind(kind+arg, cmdutil.NodeGroupKind)
		if !found {
			target = &machinev1beta1.MachineSet{}
			name, _ = cmdutil.CutKind(kind+arg, cmdutil.MachineSetKind)
		}
		if name == "" || strings.Contains(name, "/") {
			return nil, cmdutil.UsageError("%q is not a nodegroup/NAME or a MACHINESET", arg)
		}
		target.SetName(name)
		targets = append(targets, target)
	}
	return targets, nil
}

// read reads an object of which the name is known.
func read(ctx context.Context, o *cmdutil.Options, c client.Reader, target client.Object) error {
	switch target := target.(type) {
	case *v1alpha1.NodeGroup:
		return cmdutil.Get(ctx, c, "", target.Name, cmdutil.TheCluster, target)
	case *machinev1beta1.MachineSet:
		return cmdutil.SuggestGroup(ctx, c, cmdutil.Get(ctx, c, o.Namespace(), target.Name, o.Where(), target), target.Name)
	}
	return nil
}

// resourceOf returns the resource and the name of an object as kubectl rollout has it in errors.
func resourceOf(target client.Object) string {
	kind, name, _ := strings.Cut(cmdutil.NameOf(target), "/")
	resource, group, _ := strings.Cut(kind, ".")
	return resource + "s." + group + ` "` + name + `"`
}
