package status

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// screen shows one status after the other.
type screen interface {
	// show shows a status; last reports that no other follows.
	show(list view.StatusList, last bool) error
	// interval is the least time between two statuses.
	interval() time.Duration
}

func (o *options) newScreen() screen {
	terminal := term.TTY{Out: cmdutil.Raw(o.Out)}
	switch {
	case !o.output.IsText():
		return &documentScreen{options: o}
	case terminal.IsTerminalOut():
		return &terminalScreen{options: o, terminal: terminal}
	}
	return newLogScreen(o)
}

// documentScreen prints documents: every one with --watch, only the last with --wait.
type documentScreen struct{ *options }

func (d *documentScreen) show(list view.StatusList, last bool) error {
	if d.Wait && !last {
		return nil
	}
	return d.print(list)
}

func (*documentScreen) interval() time.Duration { return time.Second }

// logScreen prints the rows that changed, as `kubectl get --watch` does, so that the output can go to a file.
type logScreen struct {
	*options
	// shown are the last rows, by kind, namespace and name, without what changes all the time.
	shown        map[string]any
	sets, groups logTable
}

// logTable prints the rows of a kind: the headers once, and tabs keep the widths of the columns.
type logTable struct {
	printer printers.ResourcePrinter
	tabs    interface {
		io.Writer
		Flush() error
	}
}

func newLogScreen(o *options) *logScreen {
	format := printers.PrintOptions{Wide: o.output.Wide(), NoHeaders: o.output.NoHeaders}
	table := func() logTable { return logTable{printers.NewTablePrinter(format), printers.GetNewTabWriter(o.Out)} }
	return &logScreen{options: o, shown: map[string]any{}, sets: table(), groups: table()}
}

func (l *logScreen) show(list view.StatusList, _ bool) error {
	shown := make(map[string]any, len(l.shown))
	sets := slices.DeleteFunc(slices.Clone(list.Items), func(set view.MachineSetStatus) bool {
		return !l.changed(shown, "set/"+set.Namespace+"/"+set.Name, []any{set.Summary, set.Generation, set.Paused})
	})
	groups := slices.DeleteFunc(slices.Clone(list.NodeGroups), func(group view.NodeGroupStatus) bool {
		group.Message, group.Rollout = "", view.Rollout{}
		return !l.changed(shown, "group/"+group.Name, group)
	})
	l.shown = shown
	if err := l.sets.print(l.columns(), l.rows(sets)); err != nil {
		return err
	}
	return l.groups.print(groupColumns, l.groupRows(groups))
}

// changed reports whether a row differs from the one that was shown last, and notes it.
func (l *logScreen) changed(shown map[string]any, key string, row any) bool {
	shown[key] = row
	return !reflect.DeepEqual(l.shown[key], row)
}

func (t *logTable) print(columns cmdutil.Columns, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	if err := t.printer.PrintObj(cmdutil.NewTable(columns, rows), t.tabs); err != nil {
		return err
	}
	return t.tabs.Flush()
}

func (*logScreen) interval() time.Duration { return time.Second }

// terminalScreen draws the table in place, with a line of progress under it.
type terminalScreen struct {
	*options
	terminal term.TTY
	// lines is how many lines the last drawing took; todo is how many Machines were unfinished when there were most, at the time since.
	lines int
	todo  int
	since time.Time
}

func (t *terminalScreen) show(list view.StatusList, last bool) error {
	text, err := t.output.Render(&list, func(text *cmdutil.Text) {
		t.draw(text, list)
		text.Printf("%s\n", t.progress(list, last))
	})
	if err != nil {
		return err
	}
	drawn := t.fit(cmdutil.Escape(text))
	up := ""
	if t.lines > 0 {
		up = fmt.Sprintf("\x1b[%dA", t.lines)
	}
	t.lines = strings.Count(drawn, "\n")
	_, err = fmt.Fprintf(cmdutil.Raw(t.Out), "%s\r\x1b[J%s", up, drawn)
	return err
}

// fit cuts what does not fit: a wrapped line, or one that has scrolled away, cannot be drawn over.
func (t *terminalScreen) fit(text string) string {
	size := t.terminal.GetSize()
	if size == nil || size.Width == 0 || size.Height < 2 {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := int(size.Height) - 1; len(lines) > most {
		// The line of progress comes last and stays.
		lines = append(lines[:most-1], lines[len(lines)-1])
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > int(size.Width) {
			lines[i] = string(runes[:size.Width])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func (*terminalScreen) interval() time.Duration { return 200 * time.Millisecond }

// progress returns the last line: a bar, how many Machines are done, how fast, and how long it still takes.
func (t *terminalScreen) progress(list view.StatusList, last bool) string {
	machines, left := 0, list.Unfinished()
	for _, set := range list.Items {
		machines += set.Summary.Machines
	}
	for i := range list.NodeGroups {
		machines += max(int(list.NodeGroups[i].Nodes), list.NodeGroups[i].Unfinished())
	}
	now := t.Now()
	if left > t.todo || left == 0 && !last {
		t.todo, t.since = left, now
	}
	return progressText(machines, left, t.todo, now.Sub(t.since))
}

const barWidth = 30

// progressText returns the line of progress: left of all Machines are unfinished; at most todo were, that long ago.
func progressText(machines, left, todo int, since time.Duration) string {
	done := machines - left
	filled := barWidth
	if machines > 0 {
		filled = barWidth * done / machines
	}
	text := fmt.Sprintf("[%s%s] %d/%d done", strings.Repeat("#", filled), strings.Repeat("-", barWidth-filled), done, machines)
	if rate := float64(todo-left) / since.Seconds(); left > 0 && todo > left && since >= time.Second {
		text += fmt.Sprintf(", %.0f/s, %s left", rate, time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}
