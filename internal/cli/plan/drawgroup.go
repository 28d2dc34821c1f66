package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/drain"
)

// shownWaves is how many waves are shown without -o wide.
const shownWaves = 10

// drawGroups writes the plans of NodeGroups for people. The form is not stable; scripts use -o json.
func drawGroups(text *cmdutil.Text, items []*view.NodeGroupPlan) {
	for i, item := range items {
		if i > 0 {
			text.Printf("\n")
		}
		drawNodeGroup(text, item)
	}
}

func drawNodeGroup(text *cmdutil.Text, p *view.NodeGroupPlan) {
	text.Printf("%s\n", groupTitle(p))
	for _, note := range p.Notes {
		text.Printf("  note: %s\n", note)
	}
	text.Problems("  ", p.Problems)
	drawMembership(text, p)
	drawWaves(text, p)
	drawDisruption(text, p.Disruption)
	for i := range p.LabelUses {
		text.Printf("  Warning: %s\n", labelUseText(text, &p.LabelUses[i]))
	}
	drawAutoscaled(text, p.AutoscaledSets)
	drawReplacement(text, p.Replacement, "")
	drawGuards(text, p.Guards, p.NoExecute)
	for i := range p.Changes {
		drawChanges(text, &p.Changes[i])
	}
	text.Printf("\n%s.\n", groupSummary(&p.Summary))
}

func groupTitle(p *view.NodeGroupPlan) string {
	title := fmt.Sprintf("NodeGroup %s (generation %d, %s", p.Name, p.Generation, cmdutil.Count(p.Summary.Nodes, "node"))
	if p.Suspended {
		title += ", suspended"
	}
	if p.DryRun {
		title += ", dry run"
	}
	title += "): "
	switch s := &p.Summary; {
	case s.ToWrite+s.ToReplace > 0:
		return title + changeVerdict(s.ToWrite, s.Nodes+s.Released, s.ToReplace)
	case s.Nodes == 0:
		return title + "nothing to do"
	}
	return title + "nothing would change"
}

// drawMembership says what a file does to the membership.
func drawMembership(text *cmdutil.Text, p *view.NodeGroupPlan) {
	for _, change := range []struct {
		sign, word string
		names      []string
	}{{"+", "join", p.Joining}, {"-", "leave", p.Leaving}} {
		if count := len(change.names); count > 0 {
			text.Printf("  %s %s would %s: %s\n", change.sign, cmdutil.Count(count, "node"), change.word, namesText(text, change.names))
		}
	}
}

// drawWaves lists the waves. Those that are over come to be written again only if their Nodes change.
func drawWaves(text *cmdutil.Text, p *view.NodeGroupPlan) {
	if p.Summary.ToWrite == 0 || len(p.Waves) == 0 {
		return
	}
	text.Printf("\n  %s, by zone and age:\n", cmdutil.Count(len(p.Waves), "wave"))
	for i := range p.Waves {
		if i == shownWaves && !text.Wide {
			text.Printf("    and %d more\n", len(p.Waves)-shownWaves)
			return
		}
		wave := &p.Waves[i]
		state := fmt.Sprintf("%d to write", wave.ToWrite)
		if i+1 < p.Wave {
			state = "over"
		}
		text.Printf("    %d. %s, %s: %s\n", i+1, cmdutil.Count(len(wave.Nodes), "node"), state, namesText(text, wave.Nodes))
	}
}

func drawDisruption(text *cmdutil.Text, d *view.GroupDisruption) {
	if d == nil {
		return
	}
	limit := fmt.Sprint(d.Limit)
	if d.MaxUnavailable != limit {
		limit += fmt.Sprintf(" (%s)", d.MaxUnavailable)
	}
	text.Printf("\n  Budget: %s of %s may be unavailable, %d are\n", limit, cmdutil.Count(d.Expected, "node"), d.Unavailable)
	switch {
	case d.Open && d.Changes == nil:
		text.Printf("  Window: disruptions may begin at any time\n")
	case d.Open:
		text.Printf("  Window: disruptions may begin until %s\n", d.Changes.UTC().Format(time.RFC3339))
	default:
		text.Printf("  Window: %s\n", d.Closed)
	}
}

// labelUseText says what requires a label.
func labelUseText(text *cmdutil.Text, use *view.LabelUse) string {
	var users []string
	if len(use.Pods) > 0 {
		users = append(users, fmt.Sprintf("%s (%s)", cmdutil.Count(len(use.Pods), "Pod"), namesText(text, use.Pods)))
	}
	if len(use.Volumes) > 0 {
		users = append(users, fmt.Sprintf("%s (%s)", cmdutil.Count(len(use.Volumes), "PersistentVolume"), namesText(text, use.Volumes)))
	}
	waits := ""
	if use.Confirm {
		waits = ", and the roll-out waits for the annotation " + v1alpha1.AnnotationConfirm
	}
	return fmt.Sprintf("required node affinity of %s uses label %q as it is on %s (%s); it would not match any more%s",
		strings.Join(users, " and of "), use.Label, cmdutil.Count(len(use.Nodes), "node"), namesText(text, use.Nodes), waits)
}

// shownGuards is how many Nodes with guarded taints are shown without -o wide.
const shownGuards = 10

// drawAutoscaled warns of what the templates of autoscaled MachineSets lack.
func drawAutoscaled(text *cmdutil.Text, all []view.AutoscaledSets) {
	for i := range all {
		sets := &all[i]
		var missing []string
		for _, key := range sets.Labels {
			missing = append(missing, fmt.Sprintf("label %q", key))
		}
		for _, id := range sets.Taints {
			missing = append(missing, fmt.Sprintf("taint %q", id))
		}
		text.Printf("  Warning: the template of %s (%s) lacks %s: without Nodes, cluster-autoscaler does not know that new ones get them\n",
			cmdutil.Count(len(sets.MachineSets), "autoscaled MachineSet"), namesText(text, sets.MachineSets), namesText(text, missing))
	}
}

// drawGuards says for each Node what happens to its Pods before it gets a taint with the effect NoExecute, or when it does.
func drawGuards(text *cmdutil.Text, guards []view.NodeGuard, total *view.NoExecute) {
	if len(guards) == 0 {
		return
	}
	drawNoExecute(text, total)
	for i := range guards {
		if i == shownGuards && !text.Wide {
			text.Printf("    and %s more\n", cmdutil.Count(len(guards)-shownGuards, "node"))
			return
		}
		drawGuard(text, &guards[i])
	}
}

// drawNoExecute says what happens to the Pods of all Nodes that get a taint with the effect NoExecute.
func drawNoExecute(text *cmdutil.Text, total *view.NoExecute) {
	pods, lost := cmdutil.Count(total.Pods, "Pod"), ""
	if total.AtOnce {
		if total.LostPods > 0 {
			lost = fmt.Sprintf(", and %s of DaemonSets, which would not return", cmdutil.Count(total.LostPods, "Pod"))
		}
		const format = "\n  Taints with the effect NoExecute: Kubernetes would delete %s at once, whatever PodDisruptionBudgets allow%s:\n"
		text.Printf(format, pods, lost)
		return
	}
	text.Printf("\n  Taints with the effect NoExecute, before which Pods are evicted within their PodDisruptionBudgets:\n")
	if total.Timeout != "" && total.Pods > 0 {
		const format = "    ! Kubernetes would delete those of %s that have not left after %s; %d could not be evicted now\n"
		text.Printf(format, pods, total.Timeout, total.Blocked)
	}
}

func drawGuard(text *cmdutil.Text, guard *view.NodeGuard) {
	text.Printf("    %s (%s): ", guard.Node, strings.Join(guard.Taints, ", "))
	switch {
	case guard.AtOnce && guard.Pods > 0:
		text.Printf("%s would be deleted: %s\n", cmdutil.Count(guard.Pods, "Pod"), someNamesText(text, guard.Deleted, guard.Pods))
	case guard.Held != "":
		text.Printf("held back: %s\n", guard.Held)
	case guard.Pods == 0:
		text.Printf("no Pod has to leave\n")
	default:
		text.Printf("%s would have to leave\n", cmdutil.Count(guard.Pods, "Pod"))
	}
	for i := range guard.Leaving {
		drawLeaving(text, &guard.Leaving[i])
	}
	if guard.LostPods > 0 {
		text.Printf("      ! %s of DaemonSets would be deleted and not return: %s\n", cmdutil.Count(guard.LostPods, "Pod"),
			someNamesText(text, guard.Lost, guard.LostPods))
	}
}

func drawLeaving(text *cmdutil.Text, group *view.LeavingGroup) {
	names := someNamesText(text, group.Pods, group.Count)
	switch {
	case group.Reason == drain.Evicting:
		text.Printf("      - %s could be evicted now: %s\n", cmdutil.Count(group.Count, "Pod"), names)
	case group.Detail == "":
		text.Printf("      ! %s could not be evicted now, %s: %s\n", cmdutil.Count(group.Count, "Pod"), group.Reason, names)
	default:
		text.Printf("      ! %s could not be evicted now, %s (%s): %s\n", cmdutil.Count(group.Count, "Pod"), group.Reason, group.Detail, names)
	}
}

func drawChanges(text *cmdutil.Text, group *view.NodeChanges) {
	left := ""
	if group.Released {
		left = " (not in the group any more)"
	}
	if group.ReleaseDelay != nil {
		left = fmt.Sprintf(" (not in the group any more, released after %s)", group.ReleaseDelay.Duration)
	}
	text.Printf("\n  %s%s: %s\n", cmdutil.Count(len(group.Nodes), "node"), left, namesText(text, group.Nodes))
	if group.Reason != "" {
		text.Printf("    %s: %s\n", group.State, group.Reason)
	}
	if group.Drift {
		text.Printf("    drift: it was as declared before, and another writer changed it\n")
	}
	for _, change := range group.Changes {
		text.Printf("    %s %-10s %s\n", signs[change.Operation], change.Kind, changeText(text, change))
	}
	text.Problems("    ", group.Problems)
}

func groupSummary(s *view.GroupSummary) string {
	nothing := "Nothing to change: " + cmdutil.Count(s.Nodes, "Node")
	change := fmt.Sprintf("To change: %s of %d", cmdutil.Count(s.ToWrite, "Node"), s.Nodes+s.Released)
	return changeSummary(nothing, change, s.ToWrite, s.ToReplace) + countsText([]count{
		{s.Conflict, "in conflict"}, {s.Refused, "with refused or invalid entries"}, {s.Held, "held"}, {s.Released, "not in the group any more"},
	})
}
