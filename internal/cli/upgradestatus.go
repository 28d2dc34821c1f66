package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// UpgradeStatusList is what `upgrade status` prints.
type UpgradeStatusList struct {
	TypeMeta
	Items []UpgradeStatus `json:"items"`
}

// UpgradeStatus is how far one run is.
type UpgradeStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty"`
	// Version is the one that is aimed at.
	Version string `json:"version,omitempty"`
	Done    int    `json:"done"`
	Failed  int    `json:"failed"`
	Total   int    `json:"total"`
	// Message says what is waited for.
	Message  string       `json:"message,omitempty"`
	Created  time.Time    `json:"created"`
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// Nodes are those that the run's status names, in the order of their turns.
	Nodes []mutex.NodeStatus `json:"nodes,omitempty"`
}

type upgradeStatusCommand struct {
	*options
	output    output
	noHeaders bool
	watch     bool
}

func newUpgradeStatus(o *options) *cobra.Command {
	s := &upgradeStatusCommand{options: o}
	command := &cobra.Command{
		Use: "status [RUN]", Short: "Show how far runs are, and each node of one", ValidArgsFunction: o.completeRuns,
		Long: `Show how far runs are. With the name of one also each of its nodes: its phase, its Job, for how long, and what it waits for.`,
		Example: `  kubectl drover upgrade status
  kubectl drover upgrade status workers --watch`,
		Args: cobra.MaximumNArgs(1),
		RunE: run(s.run),
	}
	s.output.addFlags(command)
	command.Flags().BoolVar(&s.noHeaders, "no-headers", false, "Leave out the headers of the tables")
	command.Flags().BoolVarP(&s.watch, "watch", "w", false, "Show it again when more than an age has changed, until ctrl-c, or until the run is over")
	return command
}

func (s *upgradeStatusCommand) run(ctx context.Context, args []string) error {
	if err := s.output.validate(); err != nil {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	return (&waiting{}).until(ctx, s.output.stream(s.Out), func(ctx context.Context) (seen, error) {
		runs, err := s.runsNamed(ctx, c, args)
		if err != nil {
			return seen{done: true}, err
		}
		over := !s.watch
		document := UpgradeStatusList{TypeMeta: TypeMeta{APIVersion, "UpgradeStatusList"}, Items: []UpgradeStatus{}}
		for _, run := range runs {
			document.Items = append(document.Items, upgradeStatus(run))
			over = over || len(args) == 1 && run.Status.Phase == mutex.PhaseDone
		}
		now, err := s.look(&document, len(args) == 1)
		now.done = over || err != nil
		return now, err
	})
}

// look draws the runs, with the nodes where one run is asked for.
func (s *upgradeStatusCommand) look(document *UpgradeStatusList, nodes bool) (seen, error) {
	text, err := s.render(document, nodes)
	if err != nil {
		return seen{}, err
	}
	state, err := stateOf(document)
	return seen{text: text, state: state}, err
}

// stateOf renders a document for comparison. Documents have times where tables have ages.
func stateOf(document any) (string, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return "", fmt.Errorf("rendering %T: %w", document, err)
	}
	return string(text), nil
}

func upgradeStatus(run *mutex.MutexRunConfig) UpgradeStatus {
	status := &run.Status
	return UpgradeStatus{
		Namespace: run.Namespace, Name: run.Name, Phase: string(status.Phase), Version: status.Version, Done: int(status.Done),
		Failed: int(status.Failed), Total: int(status.Total), Message: status.Message, Created: run.CreationTimestamp.Time,
		Started: status.Started, Finished: status.Finished, Nodes: status.Nodes,
	}
}

var (
	upgradeColumns = []metav1.TableColumnDefinition{
		{Name: "Namespace", Type: "string"}, {Name: "Run", Type: "string"}, {Name: "Phase", Type: "string"}, {Name: "Version", Type: "string"},
		{Name: "Done", Type: "integer"}, {Name: "Failed", Type: "integer"}, {Name: "Total", Type: "integer"}, {Name: "Age", Type: "string"},
		{Name: "Waits-For", Type: "string"},
	}
	upgradeNodeColumns = []metav1.TableColumnDefinition{
		{Name: "Node", Type: "string"}, {Name: "Phase", Type: "string"}, {Name: "Job", Type: "string"}, {Name: "Elapsed", Type: "string"},
		{Name: "Waits-For", Type: "string"},
	}
)

// render draws the runs, and the nodes where one run is asked for.
func (s *upgradeStatusCommand) render(document *UpgradeStatusList, nodes bool) (string, error) {
	var out bytes.Buffer
	if !s.output.table() {
		err := s.output.print(&out, document)
		return out.String(), err
	}
	if len(document.Items) == 0 {
		return "There are no MutexRunConfigs.\n", nil
	}
	now := s.now()
	table := &metav1.Table{ColumnDefinitions: upgradeColumns}
	for i := range document.Items {
		run := &document.Items[i]
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			run.Namespace, run.Name, orDash(run.Phase), orDash(run.Version), run.Done, run.Failed, run.Total,
			duration.HumanDuration(now.Sub(run.Created)), run.Message,
		}})
	}
	print := func(table *metav1.Table) error {
		return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: s.noHeaders, Wide: s.output.wide()}).PrintObj(table, &out)
	}
	if err := print(table); err != nil || !nodes {
		return out.String(), err
	}
	for i := range document.Items {
		out.WriteByte('\n')
		if err := print(upgradeNodes(&document.Items[i], now)); err != nil {
			return "", err
		}
		if left := document.Items[i].Total - len(document.Items[i].Nodes); left > 0 {
			fmt.Fprintf(&out, "and %d other nodes\n", left)
		}
	}
	return out.String(), nil
}

func upgradeNodes(run *UpgradeStatus, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: upgradeNodeColumns}
	for i := range run.Nodes {
		node := &run.Nodes[i]
		elapsed := "-"
		switch {
		case node.Started == nil, node.Finished == nil && node.Phase == mutex.NodeDone:
			// When it was done is not known.
		case node.Finished != nil:
			elapsed = duration.HumanDuration(node.Finished.Sub(node.Started.Time))
		default:
			elapsed = duration.HumanDuration(now.Sub(node.Started.Time))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{node.Name, string(node.Phase), orDash(node.Job), elapsed, node.Message}})
	}
	return table
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
