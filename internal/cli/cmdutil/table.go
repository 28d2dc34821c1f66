package cmdutil

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// NewTable returns a table for the printers of kubectl.
func NewTable(columns Columns, rows [][]any) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range columns.Always {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, name := range columns.Wide {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string", Priority: 1})
	}
	for _, cells := range rows {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: inLine(cells)})
	}
	return table
}

// None stands for a value that is not there.
const None = "<none>"

// OrNone returns the text, or None for an empty one.
func OrNone(text string) string {
	if text == "" {
		return None
	}
	return text
}

// Age returns how long ago a time was, as kubectl prints it.
func Age(now, then time.Time) string { return duration.HumanDuration(now.Sub(then)) }

// Count returns a number with its noun.
func Count(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}

// longestValue is how many characters of a value are shown, unless -o wide asks for all; annotations can contain whole documents.
const longestValue = 60

// Value makes a value readable on one line. Empty values, and values with spaces or control characters, are quoted.
func (t *Text) Value(value string) string {
	if runes := []rune(value); !t.Wide && len(runes) > longestValue {
		value = string(runes[:longestValue-1]) + "…"
	}
	odd := func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }
	if value == "" || strings.HasPrefix(value, `"`) || strings.ContainsFunc(value, odd) {
		return strconv.Quote(value)
	}
	return value
}

// Entry returns an entry as kubectl writes it: key=value, key=value:Effect for a taint.
func (t *Text) Entry(kind ownership.Kind, key, value string) string {
	if kind != ownership.Taint {
		return key + "=" + t.Value(value)
	}
	name, effect := ownership.SplitTaintID(key)
	if value == "" {
		return name + ":" + string(effect)
	}
	return name + "=" + t.Value(value) + ":" + string(effect)
}

// Problems adds a line for each problem.
func (t *Text) Problems(indent string, problems []plan.Problem) {
	for _, problem := range problems {
		t.Printf("%s! %-10s %s: %s\n", indent, problem.Kind, strings.ToLower(string(problem.Reason)), problem.Message)
	}
}
