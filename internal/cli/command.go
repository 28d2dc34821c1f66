// Package cli is `kubectl drover`, the plugin for kubectl.
//
// It decides with the operator's own code (internal/metadata/plan, internal/drain, internal/upgrade/plan) from the objects of the cluster
// alone, so it also works where Drover is not installed. Each family of commands is a package: it reads objects and prints documents of
// package view. Package cmdutil is what they share.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-io/drover/internal/cli/check"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/explain"
	"github.com/drover-io/drover/internal/cli/maintenance"
	"github.com/drover-io/drover/internal/cli/plan"
	"github.com/drover-io/drover/internal/cli/rollout"
	"github.com/drover-io/drover/internal/cli/status"
	"github.com/drover-io/drover/internal/cli/ui"
	"github.com/drover-io/drover/internal/cli/uninstall"
	"github.com/drover-io/drover/internal/cli/upgrade"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/version"
)

// Exit codes.
const (
	exitOK = 0
	// exitError: bad input, or the cluster did not answer.
	exitError = 1
	// exitChanges: `plan` found something that would change.
	exitChanges = 2
)

// Main runs the plugin and returns its exit code.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	return execute(ctx, cmdutil.NewOptions(streams), args)
}

// Command returns the plugin's command line, for generators of documentation. Its commands must not be run.
func Command() *cobra.Command {
	return newRootCommand(cmdutil.NewOptions(genericiooptions.NewTestIOStreamsDiscard()))
}

func execute(ctx context.Context, o *cmdutil.Options, args []string) int {
	root := newRootCommand(o)
	root.SetArgs(args)
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	command, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, cmdutil.ErrChanges):
		return exitChanges
	}
	// If stderr is gone, there is nowhere left to report to.
	_, _ = fmt.Fprintf(o.ErrOut, "error: %v\n", err)
	if none := o.NoLeader(ctx, err); none != "" {
		_ = o.Warn("%s", none)
	}
	if cmdutil.IsUsageError(err) {
		_, _ = fmt.Fprintf(o.ErrOut, "See '%s --help' for usage.\n", command.CommandPath())
	}
	return exitError
}

func newRootCommand(o *cmdutil.Options) *cobra.Command {
	root := cmdutil.NewGroup(&cobra.Command{
		Use:   "kubectl-drover",
		Short: "Preview, follow and control what Drover does to nodes",
		Long: `Preview and follow what Drover changes on nodes, find out who owns a label, annotation or taint, take nodes into maintenance, and control
gated upgrades.

A MACHINESET is a MachineSet in the namespace ` + cmdutil.DefaultNamespace + `, unless you set -n or -A. Drover copies the labels,
annotations and taints of its template to the Machines and Nodes that already exist. A NodeGroup, which does that for any group of nodes, is
nodegroup/NAME or ng/NAME.`,
		Example: `  # Show what Drover would change
  kubectl drover plan

  # Follow a roll-out
  kubectl drover status --watch

  # Take a node into maintenance, and wait until it is drained
  kubectl drover maintenance start worker-1 --wait`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl drover"},
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cmdutil.AsUsageError(err) })
	o.AddFlags(root.PersistentFlags())
	addGroup(root, "metadata", "Labels, annotations and taints:", plan.NewCommand(o), status.NewCommand(o), explain.NewCommand(o),
		rollout.NewPauseCommand(o), rollout.NewResumeCommand(o), rollout.NewCommand(o))
	addGroup(root, "nodes", "Maintenance and upgrades of nodes:", maintenance.NewCommand(o), maintenance.NewDrainStatusCommand(o),
		upgrade.NewCommand(o))
	addGroup(root, "other", "Other commands:", ui.NewCommand(o), check.NewCommand(o), uninstall.NewCommand(o), newVersionCommand(o),
		newOptionsCommand(o))
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	addCompletion(root, o.Out)
	hideGlobalFlags(root)
	return root
}

// hideGlobalFlags has the help of each command name the command that lists the global flags, as kubectl does, and not the flags.
func hideGlobalFlags(root *cobra.Command) {
	usage := root.UsageFunc()
	hide := func(hidden bool) { root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { flag.Hidden = hidden }) }
	root.SetUsageFunc(func(command *cobra.Command) error {
		hide(true)
		defer hide(false)
		if err := usage(command); err != nil {
			return err
		}
		_, err := fmt.Fprintln(command.OutOrStderr(), "\nUse \"kubectl drover options\" for a list of global flags (they apply to all commands).")
		return err
	})
}

func newOptionsCommand(o *cmdutil.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands have",
		Long:  "List the flags that all commands have: those that select the cluster, the user and the namespace.",
		Example: `  # List the flags
  kubectl drover options`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(o.Out, "All commands have these flags:\n\n%s", command.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}

func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, command := range commands {
		command.GroupID = id
	}
	root.AddCommand(commands...)
}

// versionTimeout is how long `version` waits for the cluster.
const versionTimeout = 5 * time.Second

func newVersionCommand(o *cmdutil.Options) *cobra.Command {
	output, onlyClient := &cmdutil.OutputFlags{}, false
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this plugin and of the operator",
		Long: `Print the version of this plugin, the commit that it was built from, and the version of the operator that leads in the cluster: its image
where you may not ask it (get on pods/proxy). If the cluster does not answer, the command says so and succeeds.`,
		Example: `  # Print the versions
  kubectl drover version

  # Do not ask the cluster
  kubectl drover version --client`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := output.Validate(); err != nil {
				return err
			}
			info := &view.VersionInfo{
				TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "VersionInfo"}, Version: version.Version(), Commit: version.Commit(),
			}
			if !onlyClient {
				ctx, cancel := context.WithTimeout(command.Context(), versionTimeout)
				defer cancel()
				var err error
				if info.OperatorVersion, err = check.OperatorVersion(ctx, o); err != nil {
					if err := o.Warn("the version of the operator is unknown: %v", err); err != nil {
						return err
					}
				}
			}
			return output.Print(o, info, func(text *cmdutil.Text) {
				text.Printf("%s\n", version.String("kubectl-drover"))
				if info.OperatorVersion != "" {
					text.Printf("operator %s\n", info.OperatorVersion)
				}
			})
		},
	}
	output.AddFlags(command)
	cmdutil.DroverNamespaceFlag{Options: o}.AddFlags(command)
	command.Flags().BoolVar(&onlyClient, "client", false, "If true, print the version of the plugin only, and do not ask the cluster")
	return command
}

// kubectlCompletion is the program that kubectl runs to complete what follows `kubectl drover`.
const kubectlCompletion = `#!/usr/bin/env sh
# Put this on the PATH as kubectl_complete-drover and make it executable.
exec kubectl drover __complete "$@"
`

// addCompletion adds the completion script for kubectl drover to cobra's, which are for the name kubectl-drover.
func addCompletion(root *cobra.Command, out io.Writer) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err)
	}
	completion.Short = "Print the completion script of a shell"
	completion.Long = `Print the completion script of a shell, for the name kubectl-drover.

To complete kubectl drover, use kubectl drover completion kubectl.`
	completion.Example = `  # Complete kubectl drover
  kubectl drover completion kubectl > kubectl_complete-drover

  # Complete kubectl-drover in this bash
  source <(kubectl-drover completion bash)`
	for _, shell := range completion.Commands() {
		shell.Example = fmt.Sprintf("  kubectl-drover completion %s", shell.Name())
	}
	completion.AddCommand(&cobra.Command{
		Use:   "kubectl",
		Short: "Print the program kubectl_complete-drover, which completes kubectl drover",
		Long: `Print the program that kubectl runs to complete what follows "kubectl drover".

It needs the completion of kubectl itself (kubectl completion --help).`,
		Example: `  # Install the program
  kubectl drover completion kubectl > kubectl_complete-drover
  chmod +x kubectl_complete-drover
  sudo mv kubectl_complete-drover /usr/local/bin/`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(out, kubectlCompletion)
			return err
		},
	})
}
