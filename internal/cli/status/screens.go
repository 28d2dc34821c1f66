package status

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/kubectl/pkg/util/term"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// observe returns the status of the moment, and whether there is nothing more to wait for.
type observe func(ctx context.Context) (list *view.StatusList, done bool, err error)

// show prints statuses as they change: on a terminal in place, with a line of progress. With --wait it prints only the last document.
func (o *options) show(ctx context.Context, observe observe) error {
	terminal := term.TTY{Out: cmdutil.Raw(o.Out)}
	switch {
	case o.output.IsText() && terminal.IsTerminalOut():
		screen := &screen{options: o, terminal: terminal}
		return o.Follow(ctx, o.WaitFlags, func(ctx context.Context) (bool, error) {
			list, done, err := observe(ctx)
			if err != nil {
				return done, err
			}
			return done, screen.show(list, done)
		})
	case !o.output.IsText() && o.Wait:
		return o.Follow(ctx, o.WaitFlags, func(ctx context.Context) (bool, error) {
			list, done, err := observe(ctx)
			if err != nil || !done {
				return done, err
			}
			return done, o.output.Print(o.Options, list, nil)
		})
	}
	return o.output.Follow(ctx, o.Options, o.WaitFlags, func(ctx context.Context) (any, func(*cmdutil.Text), bool, error) {
		list, done, err := observe(ctx)
		return list, o.draw(list), done, err
	})
}

// screen draws the tables of a terminal in place, with a line of progress under them.
type screen struct {
	*options
	terminal term.TTY
	// lines is how many lines the last drawing took; todo is how many Machines were unfinished when there were most, at the time since.
	lines int
	todo  int
	since time.Time
}

// show draws a status; last reports that no other follows.
func (s *screen) show(list *view.StatusList, last bool) error {
	text := s.output.Text(func(text *cmdutil.Text) {
		s.draw(list)(text)
		text.Printf("%s\n", s.progress(list, last))
	})
	drawn := s.fit(cmdutil.Escape(text))
	up := ""
	if s.lines > 0 {
		up = fmt.Sprintf("\x1b[%dA", s.lines)
	}
	s.lines = strings.Count(drawn, "\n")
	_, err := fmt.Fprintf(cmdutil.Raw(s.Out), "%s\r\x1b[J%s", up, drawn)
	return err
}

// fit cuts what does not fit: a wrapped line, or one that has scrolled away, cannot be drawn over.
func (s *screen) fit(text string) string {
	size := s.terminal.GetSize()
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

// progress returns the last line: a bar, how many Machines are done, how fast, and how long it still takes.
func (s *screen) progress(list *view.StatusList, last bool) string {
	machines, left := 0, list.Unfinished()
	for i := range list.Items {
		machines += list.Items[i].Summary.Machines
	}
	for i := range list.NodeGroups {
		machines += max(int(list.NodeGroups[i].Nodes), list.NodeGroups[i].Unfinished())
	}
	now := s.Now()
	if left > s.todo || left == 0 && !last {
		s.todo, s.since = left, now
	}
	return progressText(machines, left, s.todo, now.Sub(s.since))
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
