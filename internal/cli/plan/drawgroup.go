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

func drawNodeGroup(text *cmdutil.Text, p *view.NodeGroupPlan) {
	s := &p.Summary
	about := []string{fmt.Sprintf("generation %d", p.Generation), cmdutil.Count(s.Nodes, "node")}
	if p.Suspended {
		about = append(about, "suspended")
	}
	if p.DryRun {
		about = append(about, "dry run")
	}
	text.Printf("NodeGroup %s (%s): %s\n", p.Name, strings.Join(about, ", "), verdict(s, s.Nodes+s.Released))
	for _, note := range p.Notes {
		text.Printf("  note: %s\n", note)
	}
	text.Problems("  ", p.Problems)
	drawMembership(text, "+", "join", p.Joining)
	drawMembership(text, "-", "leave", p.Leaving)
	drawWaves(text, p)
	drawDisruption(text, p.Disruption)
	for i := range p.LabelUses {
		text.Printf("  Warning: %s\n", labelUseText(text, &p.LabelUses[i]))
	}
	drawAutoscaled(text, p.AutoscaledSets)
	drawReplacement(text, p.Replacement, "")
	drawGuards(text, p.Guards, p.NoExecute)
	drawChanges(text, p.Changes)
	text.Printf("\n")
	drawSummary(text, s, cmdutil.Count(s.Nodes, "Node"), fmt.Sprintf("%s of %d", cmdutil.Count(s.ToWrite, "Node"), s.Nodes+s.Released))
}

// drawMembership says what a file does to the membership.
func drawMembership(text *cmdutil.Text, sign, word string, names []string) {
	if len(names) > 0 {
		text.Printf("  %s %s would %s: %s\n", sign, cmdutil.Count(len(names), "node"), word, namesText(text, names))
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

// drawGuards says what happens to the Pods of Nodes before they get a taint with the effect NoExecute, or when they do.
func drawGuards(text *cmdutil.Text, guards []view.NodeGuard, total *view.NoExecute) {
	switch {
	case len(guards) == 0:
		return
	case total.AtOnce:
		lost := ""
		if total.LostPods > 0 {
			lost = fmt.Sprintf(", and %s of DaemonSets, which would not return", cmdutil.Count(total.LostPods, "Pod"))
		}
		const format = "\n  Taints with the effect NoExecute: Kubernetes would delete %s at once, whatever PodDisruptionBudgets allow%s:\n"
		text.Printf(format, cmdutil.Count(total.Pods, "Pod"), lost)
	default:
		text.Printf("\n  Taints with the effect NoExecute, before which Pods are evicted within their PodDisruptionBudgets:\n")
		if total.Timeout != "" && total.Pods > 0 {
			const format = "    ! Kubernetes would delete those of %s that have not left after %s; %d could not be evicted now\n"
			text.Printf(format, cmdutil.Count(total.Pods, "Pod"), total.Timeout, total.Blocked)
		}
	}
	for i := range guards {
		if i == shownGuards && !text.Wide {
			text.Printf("    and %s more\n", cmdutil.Count(len(guards)-shownGuards, "node"))
			return
		}
		drawGuard(text, &guards[i])
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
		group := &guard.Leaving[i]
		sign, how := "!", "could not be evicted now, "+string(group.Reason)
		if group.Reason == drain.Evicting {
			sign, how = "-", "could be evicted now"
		} else if group.Detail != "" {
			how += " (" + group.Detail + ")"
		}
		text.Printf("      %s %s %s: %s\n", sign, cmdutil.Count(group.Count, "Pod"), how, someNamesText(text, group.Pods, group.Count))
	}
	if guard.LostPods > 0 {
		text.Printf("      ! %s of DaemonSets would be deleted and not return: %s\n", cmdutil.Count(guard.LostPods, "Pod"),
			someNamesText(text, guard.Lost, guard.LostPods))
	}
}
