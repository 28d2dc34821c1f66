package view

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// Operation is what happens to one entry.
type Operation string

// The operations of a Change.
const (
	// Add adds an entry.
	Add Operation = "add"
	// Update sets another value.
	Update Operation = "change"
	// Remove removes an entry.
	Remove Operation = "remove"
	// Record records that Drover owns an entry, which stays as it is.
	Record Operation = "record"
	// Forget records that Drover no longer owns an entry, which stays as it is.
	Forget Operation = "forget"
)

// The kinds of objects that changes are about.
const (
	ObjectMachine = "Machine"
	ObjectNode    = "Node"
)

// Change is a change of one entry of a Machine or Node.
type Change struct {
	Operation Operation `json:"operation"`
	// Object is Machine or Node.
	Object string         `json:"object"`
	Kind   ownership.Kind `json:"kind"`
	// Key of a taint is "key:Effect".
	Key string `json:"key"`
	// From and To are the values; nil for none.
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
}

// changesOf lists every change of a Machine and its Node: the Node's first, each by kind and key.
func changesOf(item *plan.Item) []Change {
	var changes []Change
	if item.Node != nil {
		before, _ := ownership.ParseRecord(item.Node.Annotations[ownership.AnnotationRecord])
		custom := ownership.ParseCustomLabels(item.Node.Annotations[ownership.AnnotationCustomLabels])
		ownedBefore := func(kind ownership.Kind) ownership.Keys {
			if kind == ownership.Label {
				return before.Owned(kind).Union(custom)
			}
			return before.Owned(kind)
		}
		changes = changesOfObject(ObjectNode, item.Decision.Node, plan.EntriesOf(item.Node), ownership.AnnotationRecord, ownedBefore)
	}
	before, _ := ownership.ParseRecord(item.Machine.Annotations[ownership.AnnotationRecord])
	ofMachine := changesOfObject(ObjectMachine, item.Decision.Machine, machineEntries(item.Machine), ownership.AnnotationRecord, before.Owned)
	return append(changes, ofMachine...)
}

// changesForGroup lists the changes of a Node for its NodeGroup, by kind and key.
func changesForGroup(node *corev1.Node, decided plan.Change) []Change {
	before, _ := ownership.ParseGroupRecord(node.Annotations[ownership.AnnotationGroupRecord])
	return changesOfObject(ObjectNode, decided, plan.EntriesOf(node), ownership.AnnotationGroupRecord, before.Owned)
}

// changesOfObject lists the changes of an object, of which record is the annotation with the ownership record.
func changesOfObject(
	object string, decided plan.Change, live plan.Entries, record string, ownedBefore func(ownership.Kind) ownership.Keys,
) []Change {
	if !decided.Write {
		return nil
	}
	// The text comes from Format, so it parses.
	after, _ := ownership.ParseRecord(decided.Record)
	var changes []Change
	for _, kind := range ownership.Kinds {
		result, owned, before := decided.Results[kind], after.Owned(kind), ownedBefore(kind)
		set, removed := ownership.KeysOf(result.Set), ownership.NewKeys(result.Remove...)
		for _, key := range set.Union(removed).Union(before).Union(owned).Sorted() {
			change := Change{Object: object, Kind: kind, Key: key, From: lookup(live[kind], key)}
			switch {
			case removed.Has(key):
				change.Operation = Remove
			case set.Has(key):
				change.Operation, change.To = Add, lookup(result.Set, key)
				if change.From != nil {
					change.Operation = Update
				}
			case before.Has(key) && !owned.Has(key):
				change.Operation, change.To = Forget, change.From
			case !before.Has(key):
				change.Operation, change.To = Record, change.From
			default:
				continue
			}
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		// Only what the record says about itself changes.
		changes = []Change{{Operation: Record, Object: object, Kind: ownership.Annotation, Key: record}}
	}
	return changes
}

// Distinct returns the changes without those of the Machine that repeat one of its Node.
func Distinct(changes []Change) []Change {
	type essence struct {
		operation Operation
		kind      ownership.Kind
		key, to   string
	}
	essenceOf := func(change Change) essence {
		e := essence{operation: change.Operation, kind: change.Kind, key: change.Key}
		if change.To != nil {
			e.to = *change.To
		}
		if change.Operation == Update || change.Operation == Record {
			// The Machine often has the value that its Node lacks, or the other way round.
			e.operation = Add
		}
		return e
	}
	ofNode := map[essence]bool{}
	var kept []Change
	for _, change := range changes {
		if change.Object == ObjectNode {
			ofNode[essenceOf(change)] = true
		} else if ofNode[essenceOf(change)] {
			continue
		}
		kept = append(kept, change)
	}
	return kept
}

func machineEntries(machine *machinev1beta1.Machine) plan.Entries {
	spec := &machine.Spec
	return plan.Entries{
		ownership.Label: spec.Labels, ownership.Annotation: spec.Annotations, ownership.Taint: ownership.TaintEntries(spec.Taints),
	}
}
