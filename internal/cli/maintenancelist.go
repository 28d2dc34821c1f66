package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// MaintenanceList is what `maintenance list` prints.
type MaintenanceList struct {
	TypeMeta
	Items []MaintenanceItem `json:"items"`
}

// MaintenanceItem is one node in maintenance.
type MaintenanceItem struct {
	Node string `json:"node"`
	// Object is the NodeMaintenance, as resource.group/name.
	Object string `json:"object"`
	Phase  string `json:"phase,omitempty"`
	// Progress is in percent.
	Progress int `json:"progress"`
	// Left is the number of pods that have still to leave.
	Left    int    `json:"left"`
	Drained bool   `json:"drained"`
	Reason  string `json:"reason,omitempty"`
	// WaitsFor says what is to be waited for; empty when nothing is.
	WaitsFor string    `json:"waitsFor,omitempty"`
	Created  time.Time `json:"created"`
	Ending   bool      `json:"ending,omitempty"`
}

type maintenanceListCommand struct {
	*options
	output    output
	noHeaders bool
}

func newMaintenanceList(o *options) *cobra.Command {
	l := &maintenanceListCommand{options: o}
	command := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the nodes in maintenance", Args: cobra.NoArgs,
		Long: "List the nodes in maintenance, by NodeMaintenances of both groups.", RunE: run(l.run),
	}
	l.output.addFlags(command)
	command.Flags().BoolVar(&l.noHeaders, "no-headers", false, "Leave out the headers of the table")
	return command
}

func (l *maintenanceListCommand) run(ctx context.Context, _ []string) error {
	if err := l.output.validate(); err != nil {
		return err
	}
	c, err := l.connect()
	if err != nil {
		return err
	}
	all, err := maintenancesOf(ctx, c)
	if err != nil {
		return err
	}
	document := MaintenanceList{TypeMeta: TypeMeta{APIVersion, "MaintenanceList"}, Items: []MaintenanceItem{}}
	for _, m := range all {
		document.Items = append(document.Items, maintenanceItem(m))
	}
	switch {
	case !l.output.table():
		return l.output.print(l.Out, &document)
	case len(document.Items) == 0:
		_, err := fmt.Fprintln(l.ErrOut, "No node is in maintenance.")
		return err
	}
	printer := printers.NewTablePrinter(printers.PrintOptions{Wide: l.output.wide(), NoHeaders: l.noHeaders})
	return printer.PrintObj(maintenanceTable(document.Items, l.now()), l.Out)
}

func maintenanceItem(m *maintained) MaintenanceItem {
	item := MaintenanceItem{
		Node: m.spec.NodeName, Object: m.String(), Phase: string(m.status.Phase), Progress: m.status.DrainProgress,
		Left: len(m.status.PendingPodsRefs), Drained: m.drained(), Reason: m.spec.Reason, Created: m.GetCreationTimestamp().Time,
		Ending: m.GetDeletionTimestamp() != nil,
	}
	if item.Left == 0 {
		item.Left = len(m.status.PendingPods)
	}
	item.Left += m.status.PendingPodsOmitted
	if !item.Drained {
		item.WaitsFor = m.waitsFor()
	}
	return item
}

var maintenanceColumns = []metav1.TableColumnDefinition{
	{Name: "Node", Type: "string"}, {Name: "Phase", Type: "string"}, {Name: "Progress", Type: "string"}, {Name: "Left", Type: "integer"},
	{Name: "Drained", Type: "string"}, {Name: "Age", Type: "string"}, {Name: "Reason", Type: "string"},
	{Name: "Object", Type: "string", Priority: 1}, {Name: "Waits-For", Type: "string", Priority: 1},
}

func maintenanceTable(items []MaintenanceItem, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: maintenanceColumns}
	for i := range items {
		item := &items[i]
		phase := item.Phase
		if item.Ending {
			phase = "Ending"
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			item.Node, phase, fmt.Sprintf("%d%%", item.Progress), item.Left, yesNo(item.Drained),
			duration.HumanDuration(now.Sub(item.Created)), item.Reason, item.Object, item.WaitsFor,
		}})
	}
	return table
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
