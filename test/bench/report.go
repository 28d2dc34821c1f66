package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// unit is the format of a figure.
type unit string

const (
	inSeconds unit = "%.2f s"
	inMiB     unit = "%.0f MiB"
	inCores   unit = "%.3f cores"
	ratio     unit = "%.2f"
	perObject unit = "%.3f"
	count     unit = "%.0f"
)

// aim is the range that a figure should be in, and its name. The zero value is none.
type aim struct {
	least, most float64
	name        string
}

// atMost and atLeast return aims; a limit of zero is none.
func atMost(limit float64) aim  { return aim{math.Inf(-1), limit, "at most"}.unlessZero(limit) }
func atLeast(limit float64) aim { return aim{limit, math.Inf(1), "at least"}.unlessZero(limit) }
func exactly(value float64) aim { return aim{value, value, "exactly"} }

func (a aim) unlessZero(limit float64) aim {
	if limit == 0 {
		return aim{}
	}
	return a
}

// figure is one measured value: a cell of a table.
type figure struct {
	Table   string  `json:"table"`
	Column  string  `json:"column"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Text    string  `json:"text"`
	Aim     string  `json:"aim,omitempty"`
	Reached *bool   `json:"reached,omitempty"`
}

// report collects the figures of a run.
type report struct{ figures []figure }

// column is where figures are added: a table has a row for each name and a column for each size or round.
type column struct {
	report      *report
	table, name string
}

// column returns a column of a table. Both exist as soon as they have a figure.
func (r *report) column(table, name string) column { return column{r, table, name} }

// add adds a figure with an aim, if it has one.
func (c column) add(name string, value float64, format unit, aims ...aim) {
	f := figure{Table: c.table, Column: c.name, Name: name, Value: value, Text: fmt.Sprintf(string(format), value)}
	for _, aim := range aims {
		if aim.name != "" {
			limit := aim.most
			if math.IsInf(limit, 1) {
				limit = aim.least
			}
			f.Aim, f.Reached = fmt.Sprintf("%s "+string(format), aim.name, limit), new(aim.least <= value && value <= aim.most)
		}
	}
	c.report.figures = append(c.report.figures, f)
}

// String returns the tables and the aims.
func (r *report) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, table := range distinct(r.figures, func(f figure) string { return f.Table }) {
		in := slices.DeleteFunc(slices.Clone(r.figures), func(f figure) bool { return f.Table != table })
		columns := distinct(in, func(f figure) string { return f.Column })
		_, _ = fmt.Fprintf(w, "\n%s\t%s\t\n", table, strings.Join(columns, "\t"))
		for _, name := range distinct(in, func(f figure) string { return f.Name }) {
			_, _ = fmt.Fprintf(w, "%s\t%s\t\n", name, strings.Join(cells(in, name, columns), "\t"))
		}
		_ = w.Flush()
	}
	fmt.Fprint(&text, "\nAims:\n")
	for _, f := range r.figures {
		if f.Reached == nil {
			continue
		}
		word := "reached"
		if !*f.Reached {
			word = "MISSED "
		}
		fmt.Fprintf(&text, "  %s  %s, %s: %s: %s, %s\n", word, f.Table, f.Column, f.Name, f.Text, f.Aim)
	}
	return text.String()
}

// cells returns the figures of a name in the order of the columns.
func cells(figures []figure, name string, columns []string) []string {
	texts := make([]string, len(columns))
	for i, column := range columns {
		texts[i] = "-"
		for _, f := range figures {
			if f.Name == name && f.Column == column {
				texts[i] = f.Text
			}
		}
	}
	return texts
}

// distinct returns the distinct texts that a function returns for figures, in order of first appearance.
func distinct(figures []figure, of func(figure) string) (all []string) {
	for _, f := range figures {
		if text := of(f); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// write writes the figures to a file, if it has a name.
func (r *report) write(file, scenario, processors string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(map[string]any{
		"scenario": scenario, "processors": processors, "time": time.Now().UTC().Format(time.RFC3339), "go": runtime.Version(), "figures": r.figures,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // every user may read the figures
}

// quantile returns the smallest value that a share of the others does not exceed, zero for none.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

// mean returns the mean of some values.
func mean(values []float64) (sum float64) {
	for _, value := range values {
		sum += value / float64(len(values))
	}
	return sum
}
