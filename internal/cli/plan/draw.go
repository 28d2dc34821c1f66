package plan

import (
	"fmt"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/status"
)

// shownNames is how many names of a group are shown without -o wide.
const shownNames = 5

// signs mark the changes of a plan, as a diff does.
var signs = map[view.Operation]string{view.Add: "+", view.Update: "~", view.Remove: "-", view.Record: "=", view.Forget: "="}

// draw writes a plan for people. The form is not stable; scripts use -o json.
func draw(text *cmdutil.Text, list view.PlanList) {
	for _, note := range list.Notes {
		text.Printf("note: %s\n", note)
	}
	if len(list.Notes) > 0 && len(list.Items) > 0 {
		text.Printf("\n")
	}
	for _, set := range list.Items {
		text.Printf("%s\n", title(set))
		text.Problems("  ", set.Problems)
		if set.Replacement != nil {
			drawReplacement(text, set.Replacement, " by NodeGroup "+set.Replacement.NodeGroup)
		}
		for _, group := range set.Groups {
			drawGroup(text, group)
		}
		text.Printf("\n")
	}
	if len(list.NodeGroups) == 0 || len(list.Items) > 0 {
		text.Printf("%s.\n", summary(list))
	}
	if len(list.NodeGroups) > 0 && len(list.Items) > 0 {
		text.Printf("\n")
	}
	drawGroups(text, list.NodeGroups)
}

func title(set view.MachineSetPlan) string {
	if set.Name == "" {
		return "Machines without a MachineSet: " + verdict(set.Summary)
	}
	title := fmt.Sprintf("MachineSet %s/%s (generation %d, %s", set.Namespace, set.Name, set.Generation, cmdutil.Count(set.Summary.Machines, "Machine"))
	if set.Policy != "" && set.Policy != "keep" {
		title += ", conflict policy " + string(set.Policy)
	}
	if set.Paused {
		title += ", paused"
	}
	return title + "): " + verdict(set.Summary)
}

func verdict(s view.Summary) string {
	switch {
	case s.ToWrite+s.ToReplace > 0:
		return changeVerdict(s.ToWrite, s.Machines, s.ToReplace)
	case s.Machines == 0:
		return "nothing to do"
	case s.Held == s.Machines:
		return "held"
	}
	return "nothing would change"
}

// changeVerdict says how many of some objects would change, and how many Machines would be replaced.
func changeVerdict(toWrite, all, toReplace int) string {
	replaced := cmdutil.Count(toReplace, "Machine") + " would be replaced"
	switch {
	case toReplace == 0:
		return fmt.Sprintf("%d of %d would change", toWrite, all)
	case toWrite == 0:
		return replaced
	}
	return fmt.Sprintf("%d of %d would change, %s", toWrite, all, replaced)
}

func drawGroup(text *cmdutil.Text, group view.Group) {
	// Without Nodes, the Machines are named.
	names, noun := group.Nodes, "node"
	if len(names) == 0 {
		names, noun = group.Machines, "Machine"
	}
	text.Printf("\n  %s: %s\n", cmdutil.Count(len(names), noun), namesText(text, names))
	if group.Reason != "" {
		text.Printf("    %s: %s\n", group.State, group.Reason)
	}
	if group.Drift {
		text.Printf("    drift: it was as declared before, and another writer changed it\n")
	}
	for _, change := range view.Distinct(group.Changes) {
		text.Printf("    %s %-10s %s\n", signs[change.Operation], change.Kind, changeText(text, change))
	}
	text.Problems("    ", group.Problems)
}

// namesText returns some names, or with -o wide all of them.
func namesText(text *cmdutil.Text, names []string) string {
	return someNamesText(text, names, len(names))
}

// someNamesText returns some names of a list of which names are the first, or with -o wide all that are known.
func someNamesText(text *cmdutil.Text, names []string, count int) string {
	if !text.Wide {
		names = names[:min(len(names), shownNames)]
	}
	return status.NamesOf(names, count)
}

func changeText(text *cmdutil.Text, change view.Change) string {
	entry := change.Key
	if value := change.From; value != nil {
		entry = text.Entry(change.Kind, change.Key, *value)
	}
	switch change.Operation {
	case view.Add:
		entry = text.Entry(change.Kind, change.Key, *change.To)
	case view.Update:
		entry += " → " + text.Value(*change.To)
	case view.Record:
		entry += " (stays; recorded as Drover's)"
	case view.Forget:
		entry += " (stays; no longer Drover's)"
	}
	if change.Object == view.ObjectMachine {
		entry += " [Machine]"
	}
	return entry
}

func summary(list view.PlanList) string {
	s := list.Summary
	nothing := fmt.Sprintf("Nothing to change: %s in %s", cmdutil.Count(s.Machines, "Machine"), cmdutil.Count(len(list.Items), "MachineSet"))
	change := fmt.Sprintf("To change: %s and %s of %d", cmdutil.Count(s.NodeWrites, "Node"), cmdutil.Count(s.MachineWrites, "Machine"), s.Machines)
	return changeSummary(nothing, change, s.ToWrite, s.ToReplace) + countsText([]count{
		{s.Conflict, "in conflict"}, {s.Refused, "with refused or invalid entries"}, {s.Held - s.Paused, "held"}, {s.Paused, "paused"},
	})
}

// changeSummary says what would change and how many Machines would be replaced, or that nothing would change.
func changeSummary(nothing, change string, toWrite, toReplace int) string {
	replaced := cmdutil.Count(toReplace, "Machine")
	switch {
	case toReplace == 0 && toWrite == 0:
		return nothing
	case toReplace == 0:
		return change
	case toWrite == 0:
		return "To replace: " + replaced
	}
	return change + "; to replace: " + replaced
}

// count is a number with what it counts.
type count struct {
	number int
	word   string
}

// countsText says what there is any of.
func countsText(counts []count) string {
	text, separator := "", "; "
	for _, c := range counts {
		if c.number > 0 {
			text += fmt.Sprintf("%s%d %s", separator, c.number, c.word)
			separator = ", "
		}
	}
	return text
}
