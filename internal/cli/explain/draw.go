package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/ownership"
)

// draw writes an explanation for people.
func draw(text *cmdutil.Text, explanation view.NodeExplanation, now time.Time) {
	text.Printf("Node:         %s\n", explanation.Name)
	if explanation.Machine != "" {
		text.Printf("Machine:      %s\nMachineSet:   %s\n", explanation.Machine, machineSet(explanation))
	}
	if explanation.NodeGroup != "" {
		text.Printf("NodeGroup:    %s\n", nodeGroup(explanation))
	}
	if explanation.State != "" {
		text.Printf("State:        %s", explanation.State)
		if explanation.Reason != "" {
			text.Printf(" (%s)", explanation.Reason)
		}
		text.Printf("\n")
	}
	for _, note := range explanation.Notes {
		text.Printf("Note:         %s\n", note)
	}
	for _, kind := range ownership.Kinds {
		var rows [][]any
		for _, entry := range explanation.Entries {
			if entry.Kind == kind {
				writer, age := writers(entry, now, text.Wide)
				rows = append(rows, []any{entry.Key, value(text, entry.Value), owner(entry), writer, age, standing(text, entry)})
			}
		}
		if len(rows) > 0 {
			text.Printf("\n")
			text.Table(cmdutil.Columns{Always: []string{string(kind) + "s", "Value", "Owner", "Last Written By", "Age", "Declared"}}, rows)
		}
	}
	if len(explanation.Problems) > 0 {
		text.Printf("\nPROBLEMS\n")
	}
	text.Problems("", explanation.Problems)
}

func machineSet(explanation view.NodeExplanation) string {
	switch {
	case explanation.MachineSet == "":
		return cmdutil.None
	case explanation.RecordedGeneration == 0:
		return fmt.Sprintf("%s (generation %d; Drover has not written this Node yet)", explanation.MachineSet, explanation.Generation)
	}
	return fmt.Sprintf("%s (generation %d; this Node was last written at %d)",
		explanation.MachineSet, explanation.Generation, explanation.RecordedGeneration)
}

// nodeGroup names the NodeGroup, with the generation of what the Node has from it.
func nodeGroup(explanation view.NodeExplanation) string {
	for i := range explanation.Entries {
		if entry := &explanation.Entries[i]; entry.Owner == view.OwnerNodeGroup {
			return fmt.Sprintf("%s (this Node was last written at generation %d)", explanation.NodeGroup, entry.Generation)
		}
	}
	return explanation.NodeGroup
}

func value(text *cmdutil.Text, value *string) string {
	if value == nil {
		return cmdutil.None
	}
	return text.Value(*value)
}

// owner names the owner of an entry, in one word: the object that Drover has it from, Drover for its own annotations, or the other writer. What
// Drover has written and does not manage has none.
func owner(entry view.Entry) string {
	switch entry.Owner {
	case view.OwnerMachineSet:
		return "MachineSet/" + entry.MachineSet
	case view.OwnerMachine:
		return "Machine"
	case view.OwnerNodeGroup:
		return "NodeGroup/" + entry.NodeGroup
	case view.OwnerRecord:
		return "Drover"
	case view.OwnerLegacy:
		return "managed-node-metadata-operator"
	case view.OwnerOther:
		return otherWriter(entry)
	}
	return cmdutil.None
}

// otherWriter names the owner that is not Drover. All taints have the same writers: when Drover wrote the list last, for a taint of its own,
// it also became the writer of those that it only kept.
func otherWriter(entry view.Entry) string {
	for _, manager := range entry.Managers {
		if manager.Name != view.DroverManager {
			return manager.Name
		}
	}
	if entry.LeftByDrover() {
		return cmdutil.None
	}
	return "unknown"
}

// writers returns the last writer of an entry, or all of them, and the age of the last write.
func writers(entry view.Entry, now time.Time, all bool) (names, age string) {
	if len(entry.Managers) == 0 {
		return cmdutil.None, cmdutil.None
	}
	shown := entry.Managers
	if !all {
		shown = shown[:1]
	}
	var texts []string
	for _, manager := range shown {
		operation := manager.Operation
		if manager.Subresource != "" {
			operation += " of " + manager.Subresource
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", manager.Name, operation))
	}
	age = "<unknown>"
	if at := entry.Managers[0].Time; at != nil {
		age = cmdutil.Age(now, *at)
	}
	return strings.Join(texts, ", "), age
}

// standings are the texts for each Standing. The declared value follows a text that ends in a colon.
var standings = map[view.Standing]string{
	view.InSync: "in sync", view.Differs: "differs:", view.Missing: "missing:", view.Leaving: "no longer: will be removed", view.InConflict: "conflict:",
	view.ProtectedKey: "protected, refused:", view.Once: "once, to new nodes", view.Undeclared: "-",
}

func standing(text *cmdutil.Text, entry view.Entry) string {
	standing := standings[entry.Standing]
	if entry.Standing == view.Undeclared {
		switch {
		case entry.Owner == view.OwnerGivenOnce:
			standing = "set once by Drover"
		case entry.Owner == view.OwnerReleased:
			standing = "removed by Drover recently"
		case entry.LeftByDrover():
			standing = "left by Drover, which does not manage it"
		}
	}
	if strings.HasSuffix(standing, ":") {
		standing += " " + value(text, entry.Declared)
	}
	return standing
}
