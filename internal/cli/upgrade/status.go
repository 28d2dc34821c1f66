package upgrade

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

type statusOptions struct {
	*cmdutil.Options
	output cmdutil.OutputFlags
	watch  bool
}

func newStatusCommand(shared *cmdutil.Options) *cobra.Command {
	o := &statusOptions{Options: shared}
	command := &cobra.Command{
		Use:   "status [RUN]",
		Short: "Show the progress of runs, and of the nodes of one run",
		Long: `Show the progress of all runs. If you name a run, the command also shows each of its nodes: its phase, its Job, the time it has taken, and
what it waits for.`,
		Example: `  # Show all runs
  kubectl drover upgrade status

  # Follow a run until it is finished
  kubectl drover upgrade status workers --watch`,
		Args:              cobra.MaximumNArgs(1),
		RunE:              shared.RunE(o.run, &o.output),
		ValidArgsFunction: completeRun(shared),
	}
	o.output.AddFlags(command)
	o.output.AddNoHeaders(command)
	command.Flags().BoolVarP(&o.watch, "watch", "w", false,
		"If true, print the status again when it changes, until the named run is finished or you press Ctrl-C")
	return command
}

func (o *statusOptions) run(ctx context.Context, c client.WithWatch, args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	changes := cmdutil.NewChanges(o.output.Stream(o.Out))
	return (&cmdutil.Follow{}).Until(ctx, func(ctx context.Context) (bool, error) {
		found, err := runs(ctx, o.Options, c, name)
		if err != nil {
			return true, err
		}
		finished := name != "" && found[0].Status.Phase == mutex.PhaseDone
		return !o.watch || finished, o.show(changes, view.NewUpgradeStatusList(found), name != "")
	})
}

// show prints a document if it has changed, with the nodes if one run is named.
func (o *statusOptions) show(changes *cmdutil.Changes, document *view.UpgradeStatusList, nodes bool) error {
	text, err := o.output.Render(document, func(text *cmdutil.Text) { drawStatus(text, document, nodes, o.Now()) })
	if err != nil {
		return err
	}
	return changes.Write(text, document)
}

func drawStatus(text *cmdutil.Text, document *view.UpgradeStatusList, nodes bool, now time.Time) {
	if len(document.Items) == 0 {
		text.Printf("There are no MutexRunConfigs.\n")
		return
	}
	var rows [][]any
	for _, run := range document.Items {
		rows = append(rows, []any{
			run.Namespace, run.Name, orDash(run.Phase), orDash(run.Version), run.Done, run.Failed, run.Total, cmdutil.Age(now, run.Created), run.Message,
		})
	}
	text.Table(cmdutil.Columns{Always: []string{"Namespace", "Run", "Phase", "Version", "Done", "Failed", "Total", "Age", "Waits-For"}}, rows)
	if !nodes {
		return
	}
	for _, run := range document.Items {
		text.Printf("\n")
		text.Table(cmdutil.Columns{Always: []string{"Node", "Phase", "Job", "Elapsed", "Waits-For"}}, nodeRows(run.Nodes, now))
		if left := run.Total - len(run.Nodes); left > 0 {
			text.Printf("and %d other nodes\n", left)
		}
	}
}

func nodeRows(nodes []mutex.NodeStatus, now time.Time) [][]any {
	var rows [][]any
	for i := range nodes {
		node, text := &nodes[i], "-"
		if elapsed, known := view.Elapsed(node, now); known {
			text = duration.HumanDuration(elapsed)
		}
		rows = append(rows, []any{node.Name, node.Phase, orDash(node.Job), text, node.Message})
	}
	return rows
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
