package maintenance

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

func newListCommand(o *cmdutil.Options) *cobra.Command {
	output := &cmdutil.OutputFlags{Tables: true}
	return o.Command(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the nodes in maintenance",
		Long:    "List the nodes in maintenance, with how far their drains are. It lists the NodeMaintenances of both groups.",
		Example: `  # List the nodes in maintenance
  kubectl drover maintenance list

  # List what each of them waits for
  kubectl drover maintenance list -o wide`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, c client.WithWatch, _ []string) error {
		all, err := list(ctx, c)
		if err != nil {
			return err
		}
		document := view.NewMaintenanceList(all)
		if len(document.Items) == 0 && output.IsText() {
			_, err := fmt.Fprintln(o.ErrOut, "No node is in maintenance.")
			return err
		}
		return output.Print(o, document, func(text *cmdutil.Text) { drawList(text, o, document.Items) })
	}, output)
}

func drawList(text *cmdutil.Text, o *cmdutil.Options, items []view.MaintenanceItem) {
	var rows [][]any
	for _, item := range items {
		phase, drained := item.Phase, "no"
		if item.Ending {
			phase = "Ending"
		}
		if item.Drained {
			drained = "yes"
		}
		rows = append(rows, []any{
			item.Node, phase, fmt.Sprintf("%d%%", item.Progress), item.Left, drained, cmdutil.Age(o.Now(), item.Created), item.Reason,
			item.Status, item.Object, item.WaitsFor,
		})
	}
	text.Table(cmdutil.Columns{
		Always: []string{"Node", "Phase", "Progress", "Left", "Drained", "Age", "Reason", "Status"}, Wide: []string{"Object", "Waits-For"},
	}, rows)
}
