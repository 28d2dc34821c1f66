package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// shownNames is how many names of a group are shown unless all are asked for.
const shownNames = 5

// signs mark the lines of a plan, as a diff does.
var signs = map[Operation]string{Add: "+", Change: "~", Remove: "-", Record: "=", Forget: "="}

// drawPlan writes a plan for people. The form is not stable; scripts read -o json.
func drawPlan(out io.Writer, list PlanList, wide bool) error {
	d := &drawer{out: out, wide: wide}
	for _, note := range list.Notes {
		d.line("note: %s", note)
	}
	for i, pool := range list.Items {
		if i > 0 || len(list.Notes) > 0 {
			d.line("")
		}
		d.pool(pool)
	}
	if len(list.Items) > 0 {
		d.line("")
	}
	d.line("%s", summaryText(list))
	return d.err
}

// drawer keeps the first error, so that drawing reads as a list of lines.
type drawer struct {
	out  io.Writer
	wide bool
	err  error
}

func (d *drawer) line(format string, args ...any) {
	if d.err == nil {
		d.err = printf(d.out, format+"\n", args...)
	}
}

func (d *drawer) pool(pool PoolPlan) {
	d.line("%s", poolTitle(pool))
	for _, problem := range pool.Problems {
		d.problem("  ", problem)
	}
	for _, group := range pool.Groups {
		d.group(group)
	}
}

func poolTitle(pool PoolPlan) string {
	if pool.Name == "" {
		return fmt.Sprintf("Machines without a pool: %s", verdict(pool))
	}
	title := fmt.Sprintf("Pool %s/%s (generation %d, %s", pool.Namespace, pool.Name, pool.Generation, count(pool.Summary.Machines, "Machine"))
	if pool.Policy != "" && pool.Policy != "keep" {
		title += ", conflict policy " + string(pool.Policy)
	}
	if pool.Paused {
		title += ", paused"
	}
	return title + "): " + verdict(pool)
}

func verdict(pool PoolPlan) string {
	switch {
	case pool.Summary.ToWrite > 0:
		return fmt.Sprintf("%d of %d would change", pool.Summary.ToWrite, pool.Summary.Machines)
	case pool.Summary.Machines == 0:
		return "nothing to do"
	case pool.Summary.Held == pool.Summary.Machines:
		return "held"
	}
	return "nothing would change"
}

func (d *drawer) group(group Group) {
	d.line("")
	d.line("  %s", d.names(group))
	if group.Reason != "" {
		d.line("    %s: %s", group.State, group.Reason)
	}
	if group.Drift {
		d.line("    drift: this was as declared before and somebody changed it")
	}
	for _, line := range withoutEchoes(group.Changes) {
		d.line("    %s", d.change(line))
	}
	for _, problem := range group.Problems {
		d.problem("    ", problem)
	}
}

// names lists the Nodes of a group, or its Machines where they have no Nodes.
func (d *drawer) names(group Group) string {
	names, what := group.Nodes, "node"
	if len(names) == 0 {
		names, what = group.Machines, "Machine"
	}
	shown, more := names, ""
	if !d.wide && len(names) > shownNames {
		shown, more = names[:shownNames], fmt.Sprintf(" and %d more", len(names)-shownNames)
	}
	return count(len(names), what) + ": " + strings.Join(shown, ", ") + more
}

func (d *drawer) change(line Line) string {
	text := fmt.Sprintf("%s %-10s ", signs[line.Operation], line.Kind)
	switch line.Operation {
	case Add:
		text += showEntry(line.Kind, line.Key, *line.To, d.wide)
	case Change:
		text += fmt.Sprintf("%s → %s", showEntry(line.Kind, line.Key, *line.From, d.wide), showValue(*line.To, d.wide))
	case Remove:
		text += showEntry(line.Kind, line.Key, *line.From, d.wide)
	case Record:
		text += d.recorded(line) + " (stays; recorded as Drover's)"
	case Forget:
		text += d.recorded(line) + " (stays; no longer Drover's)"
	}
	if line.Object == objectMachine {
		text += " [Machine]"
	}
	return text
}

func (d *drawer) recorded(line Line) string {
	if line.From == nil {
		return line.Key
	}
	return showEntry(line.Kind, line.Key, *line.From, d.wide)
}

func (d *drawer) problem(indent string, problem plan.Problem) {
	d.line("%s! %-10s %s: %s", indent, problem.Kind, strings.ToLower(string(problem.Reason)), problem.Message)
}

func summaryText(list PlanList) string {
	s := list.Summary
	var others []string
	for _, part := range []struct {
		number int
		word   string
	}{{s.Conflict, "in conflict"}, {s.Refused, "with refused or invalid entries"}, {s.Held - s.Paused, "held"}, {s.Paused, "paused"}} {
		if part.number > 0 {
			others = append(others, fmt.Sprintf("%d %s", part.number, part.word))
		}
	}
	text := "Nothing to change"
	if s.ToWrite > 0 {
		text = fmt.Sprintf("To change: %s and %s of %d", count(s.NodeWrites, "Node"), count(s.MachineWrites, "Machine"), s.Machines)
	} else {
		text += fmt.Sprintf(": %s in %s", count(s.Machines, "Machine"), count(len(list.Items), "pool"))
	}
	if len(others) > 0 {
		text += "; " + strings.Join(others, ", ")
	}
	return text + "."
}

func count(number int, word string) string {
	if number == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", number, word)
}
