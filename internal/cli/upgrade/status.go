package upgrade

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

func newStatusCommand(o *cmdutil.Options) *cobra.Command {
	output, watch := &cmdutil.OutputFlags{Tables: true}, false
	command := o.Command(&cobra.Command{
		Use:   "status [RUN]",
		Short: "Show the progress of runs, and of the nodes of one run",
		Long: `Show the progress of all runs. If you name a run, the command also shows each of its nodes: its phase, its Job, the time it has taken, and
what it waits for.`,
		Example: `  # Show all runs
  kubectl drover upgrade status

  # Follow a run until it is finished
  kubectl drover upgrade status workers --watch`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeRun(o),
	}, func(ctx context.Context, c client.WithWatch, args []string) error {
		name := strings.Join(args, "")
		return output.Follow(ctx, o, cmdutil.WaitFlags{}, func(ctx context.Context) (any, func(*cmdutil.Text), bool, error) {
			found, err := runs(ctx, o, c, name)
			if err != nil {
				return nil, nil, true, err
			}
			document, finished := view.NewUpgradeStatusList(found), name != "" && found[0].Status.Phase == mutex.PhaseDone
			return document, func(text *cmdutil.Text) { drawStatus(text, document, name != "", o.Now()) }, !watch || finished, nil
		})
	}, output)
	command.Flags().BoolVarP(&watch, "watch", "w", false,
		"If true, print the status again when it changes, until the named run is finished or you press Ctrl-C")
	return command
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
