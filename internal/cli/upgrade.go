package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// The kinds of the upgrade gate.
var (
	upgradeRuns    = listed{"mutexrunconfigs." + mutex.GroupVersion.Group, func() client.ObjectList { return &mutex.MutexRunConfigList{} }, true}
	upgradeRules   = listed{"mutexrules." + mutex.GroupVersion.Group, func() client.ObjectList { return &mutex.MutexRuleList{} }, true}
	upgradeTargets = listed{"mutextargets." + mutex.GroupVersion.Group, func() client.ObjectList { return &mutex.MutexTargetList{} }, true}
)

func newUpgradeCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:   "upgrade",
		Short: "See and steer gated upgrades of nodes",
		Long: `See and steer gated upgrades of nodes, as MutexRunConfigs declare them.

A run is named by its name, or as NAMESPACE/NAME where several have that name; -n looks in one namespace, else all are looked at.`,
		Args: unknownCommand,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newUpgradeStatus(o), newUpgradePlan(o))
	for _, s := range []upgradeSwitch{
		{
			word: "suspend", short: "Stop a run and give everything back for the time being", done: "suspended",
			long: `Stop a run: pools, labels and paused flags are given back as they were, and no other Job is made. Jobs that run come to their end, and
count when the run is resumed. The pools are not paused any more then, so that the machine-config-operator goes on by itself.`,
			spec: map[string]any{"suspend": true},
		},
		{
			word: "resume", short: "Let a run go on that was suspended or aborted", done: "resumed",
			long: `Let a run go on that was suspended or aborted. Jobs that have run are not run again.`,
			spec: map[string]any{"suspend": nil, "abort": nil},
		},
		{
			word: "abort", short: "End a run and its Jobs, and give everything back", done: "aborted",
			long: `End a run: Jobs that run are deleted, and pools, labels and paused flags are given back as they were.`,
			spec: map[string]any{"abort": true},
		},
	} {
		command.AddCommand(s.command(o))
	}
	return command
}

// runsNamed lists the runs that are meant: all, or the one that is named.
func (o *options) runsNamed(ctx context.Context, c client.Client, args []string) ([]*mutex.MutexRunConfig, error) {
	namespace := ""
	if o.config.Namespace != nil {
		namespace = *o.config.Namespace
	}
	all, err := list[*mutex.MutexRunConfig](ctx, c, upgradeRuns, namespace)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b *mutex.MutexRunConfig) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	if len(args) == 0 {
		return all, nil
	}
	var found []*mutex.MutexRunConfig
	var names []string
	for _, run := range all {
		name := run.Namespace + "/" + run.Name
		if run.Name == args[0] || name == args[0] {
			found = append(found, run)
		}
		names = append(names, name)
	}
	switch {
	case len(found) == 0 && len(all) == 0:
		return nil, fmt.Errorf("MutexRunConfig %q not found: there are none", args[0])
	case len(found) == 0:
		return nil, fmt.Errorf("MutexRunConfig %q not found; there are %s", args[0], strings.Join(names, ", "))
	}
	return found, nil
}

// runNamed is the one run that is meant.
func (o *options) runNamed(ctx context.Context, c client.Client, args []string) (*mutex.MutexRunConfig, error) {
	found, err := o.runsNamed(ctx, c, args)
	if err != nil {
		return nil, err
	}
	if len(found) > 1 {
		return nil, usageError("%q are several MutexRunConfigs; name one as NAMESPACE/NAME", args[0])
	}
	return found[0], nil
}

// oneRun wants the name of a run on the line.
func oneRun(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("name one run; kubectl drover upgrade status lists them")
	}
	return nil
}

// completeRuns completes the names of runs.
func (o *options) completeRuns(command *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, directive
	}
	c, err := o.connect()
	if err != nil {
		return nil, directive
	}
	runs, err := o.runsNamed(command.Context(), c, nil)
	if err != nil {
		return nil, directive
	}
	var names []string
	for _, run := range runs {
		for _, name := range []string{run.Name, run.Namespace + "/" + run.Name} {
			if strings.HasPrefix(name, typed) {
				names = append(names, name)
				break
			}
		}
	}
	return names, directive
}

// upgradeSwitch is a command that changes a field of a run's spec.
type upgradeSwitch struct {
	word, short, long, done string
	spec                    map[string]any
	dryRun                  string
}

func (s upgradeSwitch) command(o *options) *cobra.Command {
	command := &cobra.Command{
		Use: s.word + " RUN", Short: s.short, Long: s.long, Args: oneRun, ValidArgsFunction: o.completeRuns,
		RunE: run(func(ctx context.Context, args []string) error { return s.run(ctx, o, args) }),
	}
	addDryRun(command, &s.dryRun)
	return command
}

func (s *upgradeSwitch) run(ctx context.Context, o *options, args []string) error {
	if err := validateDryRun(s.dryRun); err != nil {
		return err
	}
	c, err := o.connect()
	if err != nil {
		return err
	}
	found, err := o.runNamed(ctx, c, args)
	if err != nil {
		return err
	}
	done := s.done + dryRunNote(s.dryRun)
	if s.changesNothing(found) {
		done = "is " + s.done + " already"
		if s.word == "resume" {
			done = "is neither suspended nor aborted"
		}
	} else if err := s.patch(ctx, c, found); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Out, "mutexrunconfig.%s/%s %s\n", mutex.GroupVersion.Group, found.Name, done)
	return err
}

func (s *upgradeSwitch) changesNothing(run *mutex.MutexRunConfig) bool {
	switch s.word {
	case "suspend":
		return run.Spec.Suspend
	case "abort":
		return run.Spec.Abort
	}
	return !run.Spec.Suspend && !run.Spec.Abort
}

func (s *upgradeSwitch) patch(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) error {
	if s.dryRun == "client" {
		return nil
	}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": run.UID}, "spec": s.spec})
	if err != nil {
		return fmt.Errorf("rendering the patch of %s: %w", run.Name, err)
	}
	options := []client.PatchOption{client.FieldOwner("kubectl-drover")}
	if s.dryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	err = c.Patch(ctx, run, client.RawPatch(types.MergePatchType, content), options...)
	return explained(err, "changing MutexRunConfig "+run.Name, upgradeRuns.resource)
}
