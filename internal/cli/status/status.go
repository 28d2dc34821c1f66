// Package status is `kubectl drover status`: the progress of MachineSets.
package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

type options struct {
	*cmdutil.Options
	cmdutil.WaitFlags
	output  cmdutil.OutputFlags
	protect cmdutil.ProtectFlags
	watch   bool
}

// NewCommand returns the command.
func NewCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared, output: cmdutil.OutputFlags{Tables: true}}
	o.Until = "nothing is pending in the chosen MachineSets and NodeGroups"
	command := shared.Command(&cobra.Command{
		Use:   "status [MACHINESET... | nodegroup/NAME...]",
		Short: "Show the progress of MachineSets and NodeGroups",
		Long: `Follow how many Machines and Nodes of each MachineSet have what it declares, and see what NodeGroups report.

Every Machine counts once: as synced, pending (a write is still to come, or it has no Node yet), in conflict (another writer has set a
declared key), refused (a declared entry belongs to the system or is invalid; all others are as declared), or held (paused, or two Machines
claim the Node). PAUSED are those of HELD that a user has paused.

With --watch, the command prints the tables again as they change. With --wait, it ends when nothing is pending in what you chose, which is
everything without names: with exit code 0 if all is as declared; with 1 if there are conflicts or refused entries, if a roll-out has stopped, or
after --timeout.`,
		Example: `  # Show all MachineSets and NodeGroups
  kubectl drover status

  # Follow a roll-out
  kubectl drover status --watch

  # In a script, wait until a MachineSet has what it declares
  kubectl drover status workers --wait --timeout 5m`,
		ValidArgsFunction: shared.Complete(cmdutil.MachineSetKind, cmdutil.NodeGroupKind),
	}, o.run, &o.WaitFlags, &o.output, &o.protect)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "If true, print the tables again when they change, until you press Ctrl-C")
	o.AddAllNamespaces(command)
	return command
}

func (o *options) run(ctx context.Context, c client.WithWatch, args []string) error {
	sets, groups, err := o.SetsAndGroups(args)
	if err != nil {
		return err
	}
	if o.watch || o.Wait {
		return o.follow(ctx, c, sets, groups)
	}
	list, err := o.observe(ctx, c, sets, groups)
	if err != nil {
		return err
	}
	if len(list.Items)+len(list.NodeGroups) == 0 && o.output.IsText() {
		_, err := fmt.Fprintf(o.ErrOut, "No MachineSets found in %s, and no NodeGroups.\n", o.Where())
		return err
	}
	if err := o.output.Print(o.Options, list, o.draw(list)); err != nil || !o.output.IsText() {
		return err
	}
	for _, note := range list.Notes {
		if err := o.Warn("%s", note); err != nil {
			return err
		}
	}
	return nil
}

// observe returns the status of the named MachineSets and NodeGroups, or of all. A cluster may have one of the kinds only, and a user may read one
// only.
func (o *options) observe(ctx context.Context, c client.Reader, sets, groups []string) (*view.StatusList, error) {
	all := len(sets)+len(groups) == 0
	snapshot, list, err := &cmdutil.Snapshot{}, view.NewStatusList(nil, plan.Survey{}), error(nil)
	if all || len(sets) > 0 {
		snapshot, err = o.Read(ctx, c, false)
	} else {
		snapshot.ReadGroups(ctx, c)
	}
	if err == nil {
		err = snapshot.Missing(sets, groups)
	}
	if err != nil {
		return nil, cmdutil.SuggestGroup(ctx, c, err, sets...)
	}
	if !cmdutil.IsNotServed(snapshot.NoGroups) {
		// Beside MachineSets, NodeGroups are left out where they cannot be read.
		snapshot.NoGroups = nil
	}
	if all || len(sets) > 0 {
		survey, err := o.Survey(ctx, snapshot, &o.protect, sets)
		if err != nil {
			return nil, cmdutil.SuggestGroup(ctx, c, err, sets...)
		}
		list = view.NewStatusList(snapshot.Sets, survey)
	}
	return list, addGroups(list, snapshot, groups, all)
}

// addGroups adds the named NodeGroups, or all.
func addGroups(list *view.StatusList, snapshot *cmdutil.Snapshot, names []string, all bool) error {
	for _, group := range snapshot.Groups {
		if all || slices.Contains(names, group.Name) {
			list.NodeGroups = append(list.NodeGroups, view.NewNodeGroupStatus(group))
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(snapshot.Groups, func(group *v1alpha1.NodeGroup) bool { return group.Name == name }) {
			return snapshot.NoGroup(name)
		}
	}
	return nil
}

// draw returns what writes the tables.
func (o *options) draw(list *view.StatusList) func(*cmdutil.Text) {
	return func(text *cmdutil.Text) {
		if len(list.Items) > 0 {
			text.Table(o.columns(), o.rows(list.Items))
		}
		if len(list.Items) > 0 && len(list.NodeGroups) > 0 {
			text.Printf("\n")
		}
		if len(list.NodeGroups) > 0 {
			text.Table(groupColumns, o.groupRows(list.NodeGroups))
		}
	}
}

// groupColumns are those of NodeGroups.
var groupColumns = cmdutil.Columns{
	Always: []string{"NodeGroup", "Nodes", "Synced", "Pending", "Conflicts", "Refused", "Held", "Unavailable", "Phase", "Wave", "Age"},
	Wide:   []string{"Budget", "Message"},
}

func (o *options) groupRows(groups []view.NodeGroupStatus) [][]any {
	rows := make([][]any, len(groups))
	for i := range groups {
		g := &groups[i]
		budget := cmdutil.None
		if g.Budget != nil {
			budget = fmt.Sprint(*g.Budget)
		}
		rows[i] = []any{
			g.Name, g.Nodes, g.Synced, g.Pending, g.Conflicts, g.Refused, g.Held, g.Unavailable, cmdutil.OrNone(string(g.Phase)), cmdutil.OrNone(g.Wave),
			cmdutil.Age(o.Now(), g.Created), budget, cmdutil.OrNone(g.Message),
		}
	}
	return rows
}

// follow prints the status as it changes: until an interrupt, or with --wait until nothing is pending.
func (o *options) follow(ctx context.Context, c client.WithWatch, sets, groups []string) error {
	last := &view.StatusList{}
	err := o.show(ctx, func(ctx context.Context) (*view.StatusList, bool, error) {
		list, err := o.observe(ctx, c, sets, groups)
		if err != nil {
			return nil, false, err
		}
		last = list
		return list, o.Wait && list.Unfinished() == 0, nil
	})
	if cmdutil.IsStopped(err) {
		return fmt.Errorf("%w: %s", err, unfinishedText(last))
	}
	if failed := last.Failed(); err == nil && o.Wait && len(failed) > 0 {
		return errors.New(strings.Join(failed, "\n"))
	}
	return err
}

// unfinishedText says which MachineSets and NodeGroups are not finished.
func unfinishedText(list *view.StatusList) string {
	if parts := list.Pending(); len(parts) > 0 {
		return strings.Join(parts, ", ") + "; kubectl drover plan shows what is missing"
	}
	return "the cluster has not answered yet"
}

func (o *options) columns() cmdutil.Columns {
	columns := cmdutil.Columns{
		Always: []string{"MachineSet", "Nodes", "Synced", "Pending", "Conflicts", "Refused", "Held", "Paused", "Age"},
		Wide:   []string{"Machines", "To-Write", "Generation", "Policy", "Labels", "Annotations", "Taints", "Invalid"},
	}
	if o.AllNamespaces {
		columns.Always = append([]string{"Namespace"}, columns.Always...)
	}
	return columns
}

func (o *options) rows(sets []view.MachineSetStatus) [][]any {
	var rows [][]any
	for _, set := range sets {
		s := set.Summary
		age, generation := cmdutil.None, cmdutil.None
		if set.Created != nil {
			age = cmdutil.Age(o.Now(), *set.Created)
		}
		if set.Name != "" {
			generation = fmt.Sprint(set.Generation)
		}
		row := []any{
			cmdutil.OrNone(set.Name), s.Nodes, s.Synced, s.Pending, s.Conflict, s.Refused, s.Held, s.Paused, age,
			s.Machines, s.ToWrite, generation, cmdutil.OrNone(string(set.Policy)),
			set.Declared[ownership.Label], set.Declared[ownership.Annotation], set.Declared[ownership.Taint], len(set.Problems),
		}
		if o.AllNamespaces {
			row = append([]any{cmdutil.OrNone(set.Namespace)}, row...)
		}
		rows = append(rows, row)
	}
	return rows
}
