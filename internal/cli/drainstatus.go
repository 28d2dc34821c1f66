package cli

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/drover-io/drover/internal/drain"
)

// DrainStatus is what `drain-status` prints.
type DrainStatus struct {
	TypeMeta
	Node string `json:"node"`
	// Maintenance is the NodeMaintenance, as resource.group/name; empty when the node has none.
	Maintenance string `json:"maintenance,omitempty"`
	Phase       string `json:"phase,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Cordoned is when the node was cordoned, Deadline when its drain has to be done; absent for not yet and for none.
	Cordoned *time.Time `json:"cordoned,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	// Message is what the operator says itself.
	Message string       `json:"message,omitempty"`
	Pods    []DrainPod   `json:"pods"`
	Budgets []BudgetView `json:"budgets"`
	// Total is the number of all pods on the node.
	Total int    `json:"total"`
	Alone string `json:"alone,omitempty"`
}

// DrainPod is a pod that has still to leave.
type DrainPod struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Reason    drain.Reason `json:"reason"`
	Detail    string       `json:"detail,omitempty"`
	// Until is when its grace period, or what protects it, is over.
	Until *time.Time `json:"until,omitempty"`
}

type drainStatusCommand struct {
	*options
	output output
	watch  bool
}

func newDrainStatusCommand(o *options) *cobra.Command {
	d := &drainStatusCommand{options: o}
	command := &cobra.Command{
		Use:   "drain-status NODE",
		Short: "Show which pods have still to leave a node, and why they are there",
		Long: `Show which pods have still to leave a node, and why each is still there: its PodDisruptionBudget with what it needs and has, a
finalizer, its grace period, its turn.

It is made from the objects of the cluster with the operator's own code, so that it also works on a node that is not in maintenance: then
it shows what a maintenance would meet. With --watch it looks again every second and prints what has changed, until no pod is left.`,
		Example: `  kubectl drover drain-status worker-1
  kubectl drover drain-status worker-1 --watch`,
		RunE:              run(d.run),
		ValidArgsFunction: o.completeNodes,
	}
	d.output.addFlags(command)
	command.Flags().BoolVarP(&d.watch, "watch", "w", false, "Look again until no pod is left")
	return command
}

func (d *drainStatusCommand) run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return usageError("name one node")
	}
	if err := d.output.validate(); err != nil {
		return err
	}
	c, err := d.connect()
	if err != nil {
		return err
	}
	name, _ := trimPrefixes(args[0], nodePrefixes)
	look := func(ctx context.Context) (*DrainStatus, error) {
		view, err := lookAtDrain(ctx, c, name)
		if err != nil {
			return nil, err
		}
		return drainStatusOf(view, d.now())
	}
	if !d.watch {
		status, err := look(ctx)
		if err != nil {
			return err
		}
		return d.show(d.Out, status)
	}
	return (&waiting{}).until(ctx, d.output.stream(d.Out), func(ctx context.Context) (seen, error) {
		status, err := look(ctx)
		if err != nil {
			return seen{}, err
		}
		var text bytes.Buffer
		if err := d.show(&text, status); err != nil {
			return seen{}, err
		}
		text.WriteByte('\n')
		state, err := stateOf(status)
		return seen{text: text.String(), state: state, done: len(status.Pods) == 0}, err
	})
}

func drainStatusOf(view *drainView, now time.Time) (*DrainStatus, error) {
	report, options, err := view.report(now)
	if err != nil {
		return nil, err
	}
	status := &DrainStatus{
		TypeMeta: TypeMeta{APIVersion, "DrainStatus"}, Node: view.node.Name, Total: report.Total, Alone: alone(&report), Pods: []DrainPod{},
		Budgets: view.budgetViews(&report),
	}
	if m := view.maintenance; m != nil {
		status.Maintenance, status.Phase, status.Reason = m.String(), string(m.status.Phase), m.spec.Reason
		if !m.drained() {
			status.Message = m.waitsFor()
		}
	}
	if since := view.since(); !since.IsZero() {
		status.Cordoned = &since
		if options.Deadline > 0 {
			end := since.Add(options.Deadline)
			status.Deadline = &end
		}
	}
	for _, left := range report.Left {
		pod := DrainPod{Namespace: left.Namespace, Name: left.Name, Reason: left.Reason, Detail: left.Detail}
		if !left.Until.IsZero() {
			until := left.Until
			pod.Until = &until
		}
		status.Pods = append(status.Pods, pod)
	}
	return status, nil
}

func (d *drainStatusCommand) show(out io.Writer, status *DrainStatus) error {
	if !d.output.table() {
		return d.output.print(out, status)
	}
	var text bytes.Buffer
	d.head(&text, status)
	if len(status.Pods) > 0 {
		text.WriteByte('\n')
		if err := drawTable(&text, podColumns, podRows(status.Pods, d.now())); err != nil {
			return err
		}
	}
	if len(status.Budgets) > 0 {
		text.WriteByte('\n')
		if err := drawTable(&text, budgetColumns, budgetRows(status.Budgets)); err != nil {
			return err
		}
	}
	_, err := out.Write(text.Bytes())
	return err
}

// head is what is to be said of the node as a whole.
func (d *drainStatusCommand) head(out *bytes.Buffer, status *DrainStatus) {
	_ = printf(out, "Node %s: ", status.Node)
	switch {
	case status.Maintenance == "":
		out.WriteString("not in maintenance; this is what one would meet")
	case status.Reason != "":
		_ = printf(out, "%s, %s (%s)", status.Maintenance, status.Phase, status.Reason)
	default:
		_ = printf(out, "%s, %s", status.Maintenance, status.Phase)
	}
	_ = printf(out, "\nPods: %d of %d have still to leave", len(status.Pods), status.Total)
	if status.Alone != "" {
		out.WriteString(", " + status.Alone)
	}
	out.WriteByte('\n')
	if status.Cordoned != nil {
		_ = printf(out, "Cordoned %s ago", duration.HumanDuration(d.now().Sub(*status.Cordoned)))
		if status.Deadline != nil {
			_ = printf(out, ", deadline %s", remaining(status.Deadline.Sub(d.now())))
		}
		out.WriteByte('\n')
	}
	if status.Message != "" {
		_ = printf(out, "Drover says: %s\n", status.Message)
	}
}

func remaining(left time.Duration) string {
	if left < 0 {
		return duration.HumanDuration(-left) + " ago"
	}
	return "in " + duration.HumanDuration(left)
}

var podColumns = []metav1.TableColumnDefinition{
	{Name: "Namespace", Type: "string"}, {Name: "Pod", Type: "string"}, {Name: "Reason", Type: "string"}, {Name: "Left", Type: "string"},
	{Name: "Detail", Type: "string"},
}

func podRows(pods []DrainPod, now time.Time) []metav1.TableRow {
	rows := make([]metav1.TableRow, len(pods))
	for i, pod := range pods {
		left := ""
		if pod.Until != nil {
			left = remaining(pod.Until.Sub(now))
		}
		rows[i] = metav1.TableRow{Cells: []any{pod.Namespace, pod.Name, string(pod.Reason), left, pod.Detail}}
	}
	return rows
}

var budgetColumns = []metav1.TableColumnDefinition{
	{Name: "PodDisruptionBudget", Type: "string"}, {Name: "Needs", Type: "integer"}, {Name: "Has", Type: "integer"}, {Name: "Allowed", Type: "integer"},
	{Name: "Pods-Here", Type: "integer"},
}

func budgetRows(budgets []BudgetView) []metav1.TableRow {
	rows := make([]metav1.TableRow, len(budgets))
	for i, b := range budgets {
		rows[i] = metav1.TableRow{Cells: []any{b.Name, b.Needs, b.Has, b.Allowed, b.Here}}
	}
	return rows
}

// drawTable draws rows as kubectl does.
func drawTable(out io.Writer, columns []metav1.TableColumnDefinition, rows []metav1.TableRow) error {
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(&metav1.Table{ColumnDefinitions: columns, Rows: rows}, out)
}
