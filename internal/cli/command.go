package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Main runs the plugin and returns its exit code.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	return execute(ctx, newOptions(streams), args)
}

// Command is the plugin's command line, for those who describe it. Nothing of it is to be run.
func Command() *cobra.Command {
	return newRootCommand(newOptions(genericiooptions.NewTestIOStreamsDiscard()))
}

func execute(ctx context.Context, o *options, args []string) int {
	root := newRootCommand(o)
	root.SetArgs(args)
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	command, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errChanges):
		return exitChanges
	}
	// Nothing is left to report to when stderr is gone.
	_, _ = fmt.Fprintf(o.ErrOut, "error: %v\n", err)
	if errors.As(err, &usage{}) {
		_, _ = fmt.Fprintf(o.ErrOut, "See '%s --help' for usage.\n", command.CommandPath())
	}
	return exitError
}

func newRootCommand(o *options) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-drover",
		Short: "See and steer what Drover does to nodes",
		Long: `See and steer what Drover does to the labels, annotations and taints of nodes, take nodes into maintenance, and
follow gated upgrades.

A pool is a MachineSet. Drover carries the labels, annotations and taints of its template to the Machines and Nodes that
already exist. Pools are looked for in the namespace ` + DefaultNamespace + ` unless -n or -A says otherwise.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl drover"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	o.addFlags(root.PersistentFlags())
	root.AddCommand(newPlanCommand(o), newStatusCommand(o), newExplainCommand(o), newPauseCommand(o), newResumeCommand(o), newMaintenanceCommand(o),
		newDrainStatusCommand(o), newUpgradeCommand(o), newVersionCommand(o))
	addCompletion(root, o.Out)
	return root
}

func unknownCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := command.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usage{errors.New(text)}
}
