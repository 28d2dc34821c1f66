package cli

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"k8s.io/kubectl/pkg/util/term"
)

// documentScreen prints json or yaml: every status with --watch, only the last with --wait.
type documentScreen struct{ command *statusCommand }

func (d *documentScreen) show(list PoolStatusList, last bool) error {
	if d.command.wait && !last {
		return nil
	}
	return d.command.show(list)
}

func (d *documentScreen) pause() time.Duration { return redrawLog }

// logScreen prints the rows that changed, as `kubectl get --watch` does, so that the output can go to a file.
type logScreen struct {
	command *statusCommand
	shown   map[string]PoolStatus
}

func (l *logScreen) show(list PoolStatusList, _ bool) error {
	var changed []PoolStatus
	for _, pool := range list.Items {
		key := pool.Namespace + "/" + pool.Name
		if before, ok := l.shown[key]; ok && before.Summary == pool.Summary && before.Generation == pool.Generation && before.Paused == pool.Paused {
			continue
		}
		changed = append(changed, pool)
	}
	if len(changed) > 0 {
		// The table is drawn whole, so that its columns stand where they stood before; then the rows that did not change go.
		var text bytes.Buffer
		if err := l.command.table(&text, list.Items, false); err != nil {
			return err
		}
		if _, err := l.command.Out.Write([]byte(l.rows(text.String(), list.Items, changed))); err != nil {
			return err
		}
	}
	l.remember(list.Items)
	return nil
}

// rows picks the lines of the changed pools, and the header the first time.
func (l *logScreen) rows(table string, all, changed []PoolStatus) string {
	wanted := map[string]bool{}
	for _, pool := range changed {
		wanted[pool.Namespace+"/"+pool.Name] = true
	}
	var out strings.Builder
	for i, line := range strings.SplitAfter(table, "\n") {
		header := i == 0 && l.shown == nil && !l.command.noHeaders
		row := i > 0 && i <= len(all) && wanted[all[i-1].Namespace+"/"+all[i-1].Name]
		if header || row {
			out.WriteString(line)
		}
	}
	return out.String()
}

func (l *logScreen) remember(pools []PoolStatus) {
	l.shown = make(map[string]PoolStatus, len(pools))
	for _, pool := range pools {
		l.shown[pool.Namespace+"/"+pool.Name] = pool
	}
}

func (l *logScreen) pause() time.Duration { return redrawLog }

// terminalScreen draws the table in place, with a line of progress under it.
type terminalScreen struct {
	command  *statusCommand
	terminal term.TTY
	begun    time.Time
	// lines is how many lines the last drawing took; todo how many Machines were not done when there was most to do.
	lines int
	todo  int
	// since is when there was most to do.
	since time.Time
}

func (t *terminalScreen) show(list PoolStatusList, last bool) error {
	var text bytes.Buffer
	if err := t.command.table(&text, list.Items, t.command.noHeaders); err != nil {
		return err
	}
	text.WriteString(t.progress(list, last))
	drawn := t.fit(escape(text.String()))
	var out bytes.Buffer
	if t.lines > 0 {
		fmt.Fprintf(&out, "\x1b[%dA", t.lines)
	}
	out.WriteString("\r\x1b[J" + drawn)
	t.lines = strings.Count(drawn, "\n")
	_, err := raw(t.command.Out).Write(out.Bytes())
	return err
}

// fit cuts what does not fit: a wrapped line, or one that has scrolled away, cannot be drawn over.
func (t *terminalScreen) fit(text string) string {
	size := t.terminal.GetSize()
	if size == nil || size.Width == 0 || size.Height < 2 {
		return text
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	if room := int(size.Height) - 1; len(lines) > room {
		// The line of progress comes last and stays.
		lines = append(lines[:room-1], lines[len(lines)-1])
	}
	for i, line := range lines {
		if runes := []rune(strings.TrimSuffix(line, "\n")); len(runes) > int(size.Width) {
			lines[i] = string(runes[:size.Width]) + "\n"
		}
	}
	return strings.Join(lines, "")
}

func (t *terminalScreen) pause() time.Duration { return redrawTerminal }

// progress is the last line: a bar, how many are done, how fast and how long still.
func (t *terminalScreen) progress(list PoolStatusList, last bool) string {
	machines, left := 0, list.unfinished()
	for _, pool := range list.Items {
		machines += pool.Summary.Machines
	}
	now := t.command.now()
	if left > t.todo || left == 0 && !last {
		t.todo, t.since = left, now
	}
	return progressText(machines, left, t.todo, now.Sub(t.since)) + "\n"
}

const barWidth = 30

// progressText makes the line of progress: of all Machines, left are not done; at most todo were not, that long ago.
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
