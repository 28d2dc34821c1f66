// Package upgrade is `kubectl drover upgrade`: gated upgrades of nodes.
package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// NewCommand returns the command.
func NewCommand(o *cmdutil.Options) *cobra.Command {
	command := cmdutil.NewGroup(&cobra.Command{
		Use:   "upgrade",
		Short: "Preview, follow and control gated upgrades of nodes",
		Long: `Preview, follow, suspend, resume and abort gated upgrades of nodes. A MutexRunConfig declares a run.

Name a run by its name, or as NAMESPACE/NAME if several have that name. The commands look in all namespaces unless you set -n.`,
		Example: `  # Show what a run would do
  kubectl drover upgrade plan workers

  # Follow a run
  kubectl drover upgrade status workers --watch

  # Suspend a run, and resume it later
  kubectl drover upgrade suspend workers
  kubectl drover upgrade resume workers`,
	})
	command.AddCommand(newStatusCommand(o), newPlanCommand(o), newSuspendCommand(o), newResumeCommand(o), newAbortCommand(o))
	return command
}

// runs returns all runs, or the runs of a name.
func runs(ctx context.Context, o *cmdutil.Options, c client.Client, name string) ([]*mutex.MutexRunConfig, error) {
	all, err := cmdutil.List[*mutex.MutexRunConfig](ctx, c, o.GivenNamespace())
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *mutex.MutexRunConfig) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	if name == "" {
		return all, nil
	}
	var found []*mutex.MutexRunConfig
	var names []string
	for _, run := range all {
		full := run.Namespace + "/" + run.Name
		if run.Name == name || full == name {
			found = append(found, run)
		}
		names = append(names, full)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case len(all) == 0:
		return nil, fmt.Errorf("MutexRunConfig %q not found: there are none", name)
	}
	return nil, fmt.Errorf("MutexRunConfig %q not found; there are %s", name, strings.Join(names, ", "))
}

// ofRun completes a command for one run.
func ofRun(
	o *cmdutil.Options, command *cobra.Command, run func(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) error,
	flags ...cmdutil.FlagGroup,
) *cobra.Command {
	command.ValidArgsFunction = completeRun(o)
	return o.Command(command, func(ctx context.Context, c client.WithWatch, args []string) error {
		if len(args) != 1 {
			return cmdutil.UsageError("name one run; kubectl drover upgrade status lists them")
		}
		found, err := runs(ctx, o, c, args[0])
		if err != nil {
			return err
		}
		if len(found) > 1 {
			return cmdutil.UsageError("there are several MutexRunConfigs %q; name one as NAMESPACE/NAME", args[0])
		}
		return run(ctx, c, found[0])
	}, flags...)
}

// completeRun completes the name of a run, as NAME or as NAMESPACE/NAME.
func completeRun(o *cmdutil.Options) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.Completion(func(ctx context.Context, c client.Client, typed string) ([]string, error) {
			all, err := runs(ctx, o, c, "")
			var names []string
			for _, run := range all {
				name := run.Name
				if !strings.HasPrefix(name, typed) {
					name = run.Namespace + "/" + name
				}
				names = append(names, name)
			}
			return names, err
		})(command, args, typed)
	}
}

// newChangeCommand returns a command that changes fields of a run's spec. unchanged reports whether the run has them already; done and already are
// the words for each.
func newChangeCommand(
	o *cmdutil.Options, command *cobra.Command, spec map[string]any, unchanged func(*mutex.MutexRunConfigSpec) bool, done, already string,
) *cobra.Command {
	var output cmdutil.PrintFlags
	return ofRun(o, command, func(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) error {
		if unchanged(&run.Spec) {
			return output.Change(ctx, o, c, run, nil, already)
		}
		return output.Change(ctx, o, c, run, map[string]any{"spec": spec}, done)
	}, &output)
}

func newSuspendCommand(o *cmdutil.Options) *cobra.Command {
	return newChangeCommand(o, &cobra.Command{
		Use:   "suspend RUN",
		Short: "Suspend a run and restore everything until it is resumed",
		Long: `Suspend a run: Drover restores MachineConfigPools and labels as they were, and creates no more Jobs. Jobs that run come to their end, and
count when you resume the run. The MachineConfigPools are no longer paused then, so the machine-config-operator upgrades their nodes.`,
		Example: `  # Suspend a run
  kubectl drover upgrade suspend workers`,
	}, map[string]any{"suspend": true}, func(spec *mutex.MutexRunConfigSpec) bool { return spec.Suspend }, "suspended", "is already suspended")
}

func newResumeCommand(o *cmdutil.Options) *cobra.Command {
	return newChangeCommand(o, &cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a run that was suspended or aborted",
		Long:  `Resume a run that was suspended or aborted. Jobs that have run do not run again.`,
		Example: `  # Resume a run
  kubectl drover upgrade resume workers`,
	}, map[string]any{"suspend": nil, "abort": nil}, func(spec *mutex.MutexRunConfigSpec) bool { return !spec.Suspend && !spec.Abort },
		"resumed", "is neither suspended nor aborted")
}

func newAbortCommand(o *cmdutil.Options) *cobra.Command {
	return newChangeCommand(o, &cobra.Command{
		Use:   "abort RUN",
		Short: "Abort a run and its Jobs and restore everything",
		Long:  `Abort a run: Drover deletes the Jobs that run, and restores MachineConfigPools and labels as they were.`,
		Example: `  # Abort a run
  kubectl drover upgrade abort numo/workers`,
	}, map[string]any{"abort": true}, func(spec *mutex.MutexRunConfigSpec) bool { return spec.Abort }, "aborted", "is already aborted")
}
