package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/drover-io/drover/internal/ownership"
)

// plurals title the sections of an explanation.
var plurals = map[ownership.Kind]string{ownership.Label: "LABELS", ownership.Annotation: "ANNOTATIONS", ownership.Taint: "TAINTS"}

// drawExplanation writes an explanation for people.
func drawExplanation(out io.Writer, explanation NodeExplanation, now time.Time, wide bool) error {
	tabs := printers.GetNewTabWriter(out)
	d := &drawer{out: tabs, wide: wide}
	d.explanationHeader(explanation)
	for _, kind := range ownership.Kinds {
		d.section(kind, explanation.Entries, now)
	}
	if d.err == nil {
		d.err = tabs.Flush()
	}
	d.out = out
	if len(explanation.Problems) > 0 {
		d.line("\nPROBLEMS")
		for _, problem := range explanation.Problems {
			d.problem("", problem)
		}
	}
	return d.err
}

func (d *drawer) explanationHeader(explanation NodeExplanation) {
	d.line("Node:\t%s", explanation.Name)
	if explanation.Machine != "" {
		d.line("Machine:\t%s", explanation.Machine)
		d.line("Pool:\t%s", poolText(explanation))
		state := string(explanation.State)
		if explanation.Reason != "" {
			state += " (" + explanation.Reason + ")"
		}
		d.line("State:\t%s", state)
	}
	for _, note := range explanation.Notes {
		d.line("Note:\t%s", note)
	}
}

func poolText(explanation NodeExplanation) string {
	switch {
	case explanation.Pool == "":
		return "<none>"
	case explanation.RecordedGeneration == 0:
		return fmt.Sprintf("%s (generation %d; Drover has not written this Node yet)", explanation.Pool, explanation.Generation)
	}
	return fmt.Sprintf("%s (generation %d; this Node was last written at %d)", explanation.Pool, explanation.Generation, explanation.RecordedGeneration)
}

func (d *drawer) section(kind ownership.Kind, entries []Entry, now time.Time) {
	empty := true
	for _, entry := range entries {
		if entry.Kind != kind {
			continue
		}
		if empty {
			// Cells of an empty line would stretch the columns of the section before.
			d.line("\n%s\tVALUE\tOWNER\tLAST WRITTEN BY\tAGE\tDECLARED", plurals[kind])
			empty = false
		}
		writer, age := d.writer(entry, now)
		d.line("%s\t%s\t%s\t%s\t%s\t%s", entry.Key, d.value(entry.Value), ownerText(entry), writer, age, d.standing(entry))
	}
}

func (d *drawer) value(value *string) string {
	if value == nil {
		return "<none>"
	}
	return showValue(*value, d.wide)
}

func ownerText(entry Entry) string {
	switch entry.Owner {
	case OwnerPool:
		return fmt.Sprintf("Drover (pool %s, generation %d)", entry.Pool, entry.Generation)
	case OwnerMachine:
		return "Drover (from the Machine)"
	case OwnerRecord:
		return "Drover (its record)"
	case OwnerLegacy:
		return "managed-node-metadata-operator"
	case OwnerGivenOnce:
		return "nobody (given once by Drover)"
	case OwnerReleased:
		return "nobody (removed by Drover lately)"
	case OwnerOther:
		return otherText(entry)
	}
	return "<none>"
}

// otherText names the somebody else. The list of taints has one writer for all: when Drover wrote it last, for a taint of its own, it
// also became the writer of those that it only kept.
func otherText(entry Entry) string {
	for _, manager := range entry.Managers {
		if manager.Name != droverManager {
			return manager.Name
		}
	}
	if len(entry.Managers) > 0 {
		return "not Drover"
	}
	return "unknown"
}

// droverManager is the field manager of the operator's writes.
const droverManager = "drover-metadata"

// writer names who wrote the entry last; with -o wide everybody who wrote it.
func (d *drawer) writer(entry Entry, now time.Time) (names, age string) {
	if len(entry.Managers) == 0 {
		return "<none>", "<none>"
	}
	shown := entry.Managers
	if !d.wide {
		shown = shown[:1]
	}
	var all []string
	for _, manager := range shown {
		name := manager.Name + " (" + manager.Operation
		if manager.Subresource != "" {
			name += " of " + manager.Subresource
		}
		all = append(all, name+")")
	}
	age = "<unknown>"
	if at := entry.Managers[0].Time; at != nil {
		age = duration.HumanDuration(now.Sub(*at))
	}
	return strings.Join(all, ", "), age
}

func (d *drawer) standing(entry Entry) string {
	declared := d.value(entry.Declared)
	switch entry.Standing {
	case InSync:
		return "in sync"
	case Differs:
		return "differs: " + declared
	case Missing:
		return "missing: " + declared
	case Leaving:
		return "no longer: will be removed"
	case InConflict:
		return "conflict: " + declared
	case ProtectedKey:
		return "protected: " + declared + " is refused"
	case Once:
		return "once, to new nodes"
	}
	return "-"
}
