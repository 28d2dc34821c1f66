package cli

import (
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// The kinds of objects that lines are about.
const (
	objectMachine = "Machine"
	objectNode    = "Node"
)

// linesOf lists every change to a Machine and its Node: the Node's first, each by kind and key.
func linesOf(item plan.Item) []Line {
	var lines []Line
	if item.Node != nil {
		before, _ := ownership.ParseRecord(item.Node.Annotations[ownership.AnnotationRecord])
		custom := ownership.ParseCustomLabels(item.Node.Annotations[ownership.AnnotationCustomLabels])
		lines = changeLines(objectNode, item.Decision.Node, nodeEntries(item.Node), func(kind ownership.Kind) ownership.Keys {
			if kind == ownership.Label {
				return before.Owned(kind).Union(custom)
			}
			return before.Owned(kind)
		})
	}
	before, _ := ownership.ParseRecord(item.Machine.Annotations[ownership.AnnotationRecord])
	return append(lines, changeLines(objectMachine, item.Decision.Machine, machineEntries(item.Machine), before.Owned)...)
}

func changeLines(object string, change plan.Change, live plan.Entries, ownedBefore func(ownership.Kind) ownership.Keys) []Line {
	if !change.Write {
		return nil
	}
	// The text comes from Format, so it parses.
	after, _ := ownership.ParseRecord(change.Record)
	var lines []Line
	for _, kind := range ownership.Kinds {
		result, values := change.Results[kind], live[kind]
		removed, before := ownership.NewKeys(result.Remove...), ownedBefore(kind)
		touched := ownership.KeysOf(result.Set).Union(removed)
		all := touched.Union(before).Union(after.Owned(kind))
		for _, key := range all.Sorted() {
			line := Line{Object: object, Kind: kind, Key: key, From: valueOf(values, key)}
			switch {
			case removed.Has(key):
				line.Operation = Remove
			case touched.Has(key):
				line.Operation, line.To = setting(line.From), valueOf(result.Set, key)
			case before.Has(key) && !after.Owned(kind).Has(key):
				line.Operation, line.To = Forget, line.From
			case !before.Has(key):
				line.Operation, line.To = Record, line.From
			default:
				continue
			}
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		// Only what the record says about itself changes.
		lines = []Line{{Operation: Record, Object: object, Kind: ownership.Annotation, Key: ownership.AnnotationRecord}}
	}
	return lines
}

func setting(from *string) Operation {
	if from == nil {
		return Add
	}
	return Change
}

func valueOf(entries map[string]string, key string) *string {
	value, ok := entries[key]
	if !ok {
		return nil
	}
	return &value
}

// withoutEchoes drops the lines of the Machine that say what a line of the Node says as well.
func withoutEchoes(lines []Line) []Line {
	type echo struct {
		operation Operation
		kind      ownership.Kind
		key, to   string
	}
	echoOf := func(line Line) echo {
		e := echo{operation: line.Operation, kind: line.Kind, key: line.Key}
		if line.To != nil {
			e.to = *line.To
		}
		if line.Operation == Add || line.Operation == Change || line.Operation == Record {
			// The Machine often has the value that its Node lacks, or the other way round.
			e.operation = Add
		}
		return e
	}
	said := map[echo]bool{}
	var kept []Line
	for _, line := range lines {
		if line.Object == objectNode {
			said[echoOf(line)] = true
		} else if said[echoOf(line)] {
			continue
		}
		kept = append(kept, line)
	}
	return kept
}
