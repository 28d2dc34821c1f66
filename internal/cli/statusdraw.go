package cli

import (
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/drover-io/drover/internal/ownership"
)

// statusColumns are the columns of `status`; those of priority 1 are shown by -o wide only.
var statusColumns = []metav1.TableColumnDefinition{
	{Name: "Pool", Type: "string"},
	{Name: "Nodes", Type: "string"},
	{Name: "Synced", Type: "integer"},
	{Name: "Pending", Type: "integer"},
	{Name: "Conflicts", Type: "integer"},
	{Name: "Refused", Type: "integer"},
	{Name: "Held", Type: "integer"},
	{Name: "Paused", Type: "integer"},
	{Name: "Age", Type: "string"},
	{Name: "Machines", Type: "integer", Priority: 1},
	{Name: "To-Write", Type: "integer", Priority: 1},
	{Name: "Generation", Type: "integer", Priority: 1},
	{Name: "Policy", Type: "string", Priority: 1},
	{Name: "Labels", Type: "integer", Priority: 1},
	{Name: "Annotations", Type: "integer", Priority: 1},
	{Name: "Taints", Type: "integer", Priority: 1},
	{Name: "Invalid", Type: "integer", Priority: 1},
}

// statusTable makes a table as the API server does for `kubectl get`, so that kubectl's own printer draws it.
func statusTable(pools []PoolStatus, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: statusColumns}
	for _, pool := range pools {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: statusCells(pool, now)})
	}
	return table
}

func statusCells(pool PoolStatus, now time.Time) []any {
	s := pool.Summary
	age, generation, policy := "<none>", "<none>", "<none>"
	if pool.Created != nil {
		age = duration.HumanDuration(now.Sub(*pool.Created))
	}
	if pool.Name != "" {
		generation, policy = fmt.Sprint(pool.Generation), string(pool.Policy)
	}
	return []any{
		pool.title(), s.Nodes, s.Synced, s.Pending, s.Conflict, s.Refused, s.Held, s.Paused, age,
		s.Machines, s.ToWrite, generation, policy,
		pool.Declared[ownership.Label], pool.Declared[ownership.Annotation], pool.Declared[ownership.Taint], len(pool.Problems),
	}
}

// drawStatus writes the table. With namespaces the first column is the pool's namespace.
func drawStatus(out io.Writer, pools []PoolStatus, now time.Time, options printers.PrintOptions, namespaces bool) error {
	table := statusTable(pools, now)
	if namespaces {
		table.ColumnDefinitions = append([]metav1.TableColumnDefinition{{Name: "Namespace", Type: "string"}}, table.ColumnDefinitions...)
		for i := range table.Rows {
			namespace := pools[i].Namespace
			if namespace == "" {
				namespace = "<none>"
			}
			table.Rows[i].Cells = append([]any{namespace}, table.Rows[i].Cells...)
		}
	}
	return printers.NewTablePrinter(options).PrintObj(table, out)
}
