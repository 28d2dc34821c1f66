package plan

import (
	"fmt"
	"strings"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/status"
)

// shownNames is how many names of a group are shown without -o wide.
const shownNames = 5

// signs mark the changes of a plan, as a diff does.
var signs = map[view.Operation]string{view.Add: "+", view.Update: "~", view.Remove: "-", view.Record: "=", view.Forget: "="}

// draw writes a plan for people. The form is not stable; scripts use -o json.
func draw(text *cmdutil.Text, list *view.PlanList) {
	for _, note := range list.Notes {
		text.Printf("note: %s\n", note)
	}
	if len(list.Notes) > 0 && len(list.Items) > 0 {
		text.Printf("\n")
	}
	for i := range list.Items {
		drawMachineSet(text, &list.Items[i])
		text.Printf("\n")
	}
	if len(list.NodeGroups) == 0 || len(list.Items) > 0 {
		s := &list.Summary
		drawSummary(text, s, fmt.Sprintf("%s in %s", cmdutil.Count(s.Machines, "Machine"), cmdutil.Count(len(list.Items), "MachineSet")),
			fmt.Sprintf("%s and %s of %d", cmdutil.Count(s.NodeWrites, "Node"), cmdutil.Count(s.MachineWrites, "Machine"), s.Machines))
	}
	for i, group := range list.NodeGroups {
		if i > 0 || len(list.Items) > 0 {
			text.Printf("\n")
		}
		drawNodeGroup(text, group)
	}
}

func drawMachineSet(text *cmdutil.Text, set *view.MachineSetPlan) {
	s := &set.Summary
	if set.Name == "" {
		text.Printf("Machines without a MachineSet: %s\n", verdict(s, s.Machines))
	} else {
		about := []string{fmt.Sprintf("generation %d", set.Generation), cmdutil.Count(s.Machines, "Machine")}
		if set.Policy != "" && set.Policy != "keep" {
			about = append(about, "conflict policy "+string(set.Policy))
		}
		if set.Paused {
			about = append(about, "paused")
		}
		text.Printf("MachineSet %s/%s (%s): %s\n", set.Namespace, set.Name, strings.Join(about, ", "), verdict(s, s.Machines))
	}
	text.Problems("  ", set.Problems)
	if set.Replacement != nil {
		drawReplacement(text, set.Replacement, " by NodeGroup "+set.Replacement.NodeGroup)
	}
	drawChanges(text, set.Groups)
}

// verdict says how many of some objects would change, and how many Machines would be replaced.
func verdict(s *view.Summary, all int) string {
	var parts []string
	if s.ToWrite > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d would change", s.ToWrite, all))
	}
	if s.ToReplace > 0 {
		parts = append(parts, cmdutil.Count(s.ToReplace, "Machine")+" would be replaced")
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case all == 0:
		return "nothing to do"
	case s.Held == all:
		return "held"
	}
	return "nothing would change"
}

// drawSummary says what would change of some objects, and in how many nothing would.
func drawSummary(text *cmdutil.Text, s *view.Summary, all, change string) {
	var parts []string
	if s.ToWrite > 0 {
		parts = append(parts, "To change: "+change)
	}
	if s.ToReplace > 0 {
		parts = append(parts, "to replace: "+cmdutil.Count(s.ToReplace, "Machine"))
	}
	if len(parts) == 0 {
		parts = append(parts, "Nothing to change: "+all)
	}
	var counts []string
	for _, count := range []struct {
		number int
		word   string
	}{
		{s.Conflict, "in conflict"}, {s.Refused, "with refused or invalid entries"}, {s.Held - s.Paused, "held"}, {s.Paused, "paused"},
		{s.Released, "not in the group any more"},
	} {
		if count.number > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count.number, count.word))
		}
	}
	if len(counts) > 0 {
		parts = append(parts, strings.Join(counts, ", "))
	}
	line := strings.Join(parts, "; ")
	text.Printf("%s.\n", strings.ToUpper(line[:1])+line[1:])
}

// drawChanges writes the groups of Machines or Nodes with the same changes.
func drawChanges(text *cmdutil.Text, groups []view.Group) {
	for i := range groups {
		group := &groups[i]
		// Without Nodes, the Machines are named.
		names, noun, left := group.Nodes, "node", ""
		switch {
		case len(names) == 0:
			names, noun = group.Machines, "Machine"
		case group.ReleaseDelay != nil:
			left = fmt.Sprintf(" (not in the group any more, released after %s)", group.ReleaseDelay.Duration)
		case group.Released:
			left = " (not in the group any more)"
		}
		text.Printf("\n  %s%s: %s\n", cmdutil.Count(len(names), noun), left, namesText(text, names))
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
}

// namesText returns some names, or with -o wide all of them.
func namesText(text *cmdutil.Text, names []string) string {
	return someNamesText(text, names, len(names))
}

// someNamesText returns the first names of a list, or with -o wide all that are known.
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

// drawReplacement says which Machines would be replaced, and what they wait for.
func drawReplacement(text *cmdutil.Text, r *view.ReplacementPlan, by string) {
	if r == nil {
		return
	}
	text.Printf("\n  Replacement%s: %s\n", by, replacementText(text, r))
	if r.Held != "" {
		text.Printf("    held: %s\n", r.Held)
	}
	if r.Deleting > 0 {
		text.Printf("    %s being deleted already\n", cmdutil.Count(r.Deleting, "outdated Machine"))
	}
	if r.Excluded > 0 {
		text.Printf("    %s would stay: paused or excluded, or with a Node that is not in the group\n", cmdutil.Count(r.Excluded, "outdated Machine"))
	}
}

func replacementText(text *cmdutil.Text, r *view.ReplacementPlan) string {
	switch count := len(r.Machines); {
	case count == 0:
		return "no Machine would be replaced"
	case r.Suspended:
		return cmdutil.Count(count, "outdated Machine") + ": " + namesText(text, r.Machines)
	case r.MaxSurge == 0:
		return fmt.Sprintf("%s would be replaced, at most %d at a time, each before its new one is created: %s",
			cmdutil.Count(count, "Machine"), r.MaxInFlight, namesText(text, r.Machines))
	default:
		return fmt.Sprintf("%s would be replaced, at most %d at a time, with up to %d new beyond spec.replicas: %s",
			cmdutil.Count(count, "Machine"), r.MaxInFlight, r.MaxSurge, namesText(text, r.Machines))
	}
}
