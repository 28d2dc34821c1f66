package rollout

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// revisions is `rollout history`.
type revisions struct {
	*cmdutil.Options

	output   cmdutil.OutputFlags
	revision int64
}

func newHistoryCommand(o *cmdutil.Options) *cobra.Command {
	s := &revisions{Options: o}
	return command(o, &cobra.Command{
		Use:   "history " + arguments,
		Short: "Show the earlier revisions of NodeGroups and MachineSets",
		Long: `Show what NodeGroups and MachineSets have declared: a line for each revision, or one revision in full with --revision.

CHANGE-CAUSE is the annotation kubernetes.io/change-cause that a NodeGroup had then.`,
		Example: `  # Show the revisions of a NodeGroup
  kubectl drover rollout history nodegroup/batch

  # Show what revision 3 declares
  kubectl drover rollout history nodegroup/batch --revision=3`,
	}, kinds, s.show, &s.output, cmdutil.DroverNamespaceFlag{Options: o}, s)
}

// AddFlags adds the flags to a command.
func (s *revisions) AddFlags(command *cobra.Command) {
	command.Flags().Int64Var(&s.revision, "revision", 0, "Show this revision in full")
}

// Validate checks the flags.
func (s *revisions) Validate() error {
	if s.revision < 0 {
		return cmdutil.UsageError("--revision %d: a revision is a positive number", s.revision)
	}
	return nil
}

// show prints the history of an object.
func (s *revisions) show(ctx context.Context, c client.WithWatch, target client.Object) error {
	found, err := subjectOf(ctx, s.Options, c, target)
	if err != nil {
		return err
	}
	shown := found.revisions
	switch {
	case len(shown) == 0:
		return found.missing()
	case s.revision > 0:
		one, err := found.target(s.revision)
		if err != nil {
			return err
		}
		shown = append(shown[:0:0], one)
	}
	list, err := view.NewRolloutHistory(cmdutil.NameOf(target), shown, found.data)
	if err != nil {
		return err
	}
	return s.output.Print(s.Options, list, func(text *cmdutil.Text) { s.draw(text, list) })
}

// draw writes a history for people, as kubectl rollout history does.
func (s *revisions) draw(text *cmdutil.Text, list *view.RolloutHistory) {
	if s.revision > 0 {
		text.Printf("%s with revision #%d\n", list.Object, s.revision)
		drawSpec(text, list.Items[0].Spec)
		return
	}
	text.Printf("%s\n", list.Object)
	rows := make([][]any, len(list.Items))
	for i := range list.Items {
		item := &list.Items[i]
		current := ""
		if item.Current {
			current = "*"
		}
		rows[i] = []any{item.Revision, current, cmdutil.Age(s.Now(), item.Created), cmdutil.OrNone(item.ChangeCause), item.ControllerRevision}
	}
	text.Table(cmdutil.Columns{Always: []string{"Revision", "Current", "Age", "Change-Cause"}, Wide: []string{"Controller-Revision"}}, rows)
}

// drawSpec writes fields as YAML.
func drawSpec(text *cmdutil.Text, spec map[string]any) {
	if len(spec) == 0 {
		text.Printf("  (nothing is declared)\n")
		return
	}
	content, err := yaml.Marshal(spec)
	if err != nil {
		content = fmt.Appendf(nil, "%v", err)
	}
	for line := range strings.Lines(string(content)) {
		text.Printf("  %s\n", strings.TrimSuffix(line, "\n"))
	}
}
