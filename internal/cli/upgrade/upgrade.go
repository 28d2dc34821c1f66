// Package upgrade is `kubectl drover upgrade`: gated upgrades of nodes.
package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// runs returns all runs, or those of the name.
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

// runE returns the function of a command for one run.
func runE(o *cmdutil.Options, run func(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) error, flags ...cmdutil.FlagGroup,
) func(*cobra.Command, []string) error {
	return o.RunE(func(ctx context.Context, c client.WithWatch, args []string) error {
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

// oneRun requires the name of a run.
func oneRun(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cmdutil.UsageError("name one run; kubectl drover upgrade status lists them")
	}
	return nil
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

// change is a command that changes fields of a run's spec.
type change struct {
	*cmdutil.Options
	cmdutil.DryRunFlag
	spec map[string]any
	// unchanged reports whether the run has them already; done and already are the words for each.
	unchanged     func(spec *mutex.MutexRunConfigSpec) bool
	done, already string
}

func newSuspendCommand(o *cmdutil.Options) *cobra.Command {
	return (&change{
		Options: o, spec: map[string]any{"suspend": true}, done: "suspended", already: "is already suspended",
		unchanged: func(spec *mutex.MutexRunConfigSpec) bool { return spec.Suspend },
	}).command(&cobra.Command{
		Use:   "suspend RUN",
		Short: "Suspend a run and restore everything until it is resumed",
		Long: `Suspend a run: Drover restores MachineConfigPools and labels as they were, and creates no more Jobs. Jobs that run come to their end, and
count when you resume the run. The MachineConfigPools are no longer paused then, so the machine-config-operator upgrades their nodes.`,
		Example: `  # Suspend a run
  kubectl drover upgrade suspend workers`,
	})
}

func newResumeCommand(o *cmdutil.Options) *cobra.Command {
	return (&change{
		Options: o, spec: map[string]any{"suspend": nil, "abort": nil}, done: "resumed", already: "is neither suspended nor aborted",
		unchanged: func(spec *mutex.MutexRunConfigSpec) bool { return !spec.Suspend && !spec.Abort },
	}).command(&cobra.Command{
		Use:   "resume RUN",
		Short: "Resume a run that was suspended or aborted",
		Long:  `Resume a run that was suspended or aborted. Jobs that have run do not run again.`,
		Example: `  # Resume a run
  kubectl drover upgrade resume workers`,
	})
}

func newAbortCommand(o *cmdutil.Options) *cobra.Command {
	return (&change{
		Options: o, spec: map[string]any{"abort": true}, done: "aborted", already: "is already aborted",
		unchanged: func(spec *mutex.MutexRunConfigSpec) bool { return spec.Abort },
	}).command(&cobra.Command{
		Use:   "abort RUN",
		Short: "Abort a run and its Jobs and restore everything",
		Long:  `Abort a run: Drover deletes the Jobs that run, and restores MachineConfigPools and labels as they were.`,
		Example: `  # Abort a run
  kubectl drover upgrade abort numo/workers`,
	})
}

// command completes a command.
func (s *change) command(command *cobra.Command) *cobra.Command {
	command.Args, command.ValidArgsFunction = oneRun, completeRun(s.Options)
	command.RunE = runE(s.Options, s.run, &s.DryRunFlag)
	s.AddFlag(command)
	return command
}

func (s *change) run(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) error {
	name, done := cmdutil.NameOf(run), s.already
	if !s.unchanged(&run.Spec) {
		if err := s.Patch(ctx, c, run, map[string]any{"spec": s.spec}); err != nil {
			resource := schema.GroupResource{Group: mutex.GroupVersion.Group, Resource: "mutexrunconfigs"}
			return cmdutil.Explain(err, "changing MutexRunConfig "+run.Name, resource)
		}
		done = s.done + s.Note()
	}
	_, err := fmt.Fprintf(s.Out, "%s %s\n", name, done)
	return err
}
