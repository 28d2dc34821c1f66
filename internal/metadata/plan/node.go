package plan

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// AnnotationMachine on a Node names its Machine as namespace/name. It is nodelink's.
const AnnotationMachine = "machine.openshift.io/machine"

// recordedKeys are keys by kind that a RecordUpdate makes owned.
type recordedKeys = map[ownership.Kind]ownership.Keys

// decideNode merges what the Machine has after its change, and the declaration, into the Node. It decides the change of the Node, Drift, FirstWrite
// and Digest.
func (f *facts) decideNode(after Entries, recorded recordedKeys, problems *problemList) Decision {
	if !f.hasNode() {
		return Decision{}
	}
	change, desired, once := Change{}, Entries{}, ownership.Keys{}
	for _, kind := range ownership.Kinds {
		desired[kind] = f.nodeDesired(kind, after[kind], problems)
		result := f.mergeNode(kind, desired[kind], after[kind], recorded[kind], problems)
		problems.addResult(kind, result, f.policy(), "the record on the Machine")
		if kind == ownership.Taint {
			once = f.addSetOnceTaints(&result, problems)
		}
		change.set(kind, result)
	}
	record := f.newRecord(change, desired, once)
	known := f.nodeRecord.Digest == record.Digest
	change.Link = f.link()
	// By the digest a restarted operator knows that this conflict has been reported.
	recordChanged := f.outdated(record) || problems.has(InConflict) && !known && !record.Empty()
	change.Write = change.Changed() || change.Link != "" || recordChanged && !f.recordContended(OnNode, problems)
	if change.Write {
		change.owned = f.nodeRecord
		change.Record, change.CustomLabels = record.Format(), ownership.FormatCustomLabels(record.Labels)
	}
	return Decision{Node: change, FirstWrite: f.firstWrite, Digest: record.Digest, Drift: f.drifted(change, known), Reached: known}
}

// link returns the new value of the Node's annotation that names its Machine; empty where it stays. It replaces any other: a Node has one Machine.
func (f *facts) link() string {
	if name := f.in.Machine.Namespace + "/" + f.in.Machine.Name; f.in.Link && f.in.Node.Annotations[AnnotationMachine] != name {
		return name
	}
	return ""
}

// mergeNode merges desired entries of a kind into the Node. after are the Machine's entries after its change, and recorded the keys that a
// RecordUpdate makes owned; both may be nil.
func (f *facts) mergeNode(
	kind ownership.Kind, desired, after map[string]string, recorded ownership.Keys, problems *problemList,
) ownership.Result {
	return ownership.Merge(ownership.Input{
		Owned:     f.nodeOwned(kind, recorded),
		Released:  f.released(kind),
		Desired:   desired,
		Live:      f.nodeLive[kind],
		Protected: f.in.Protected.Of(kind),
		Inherited: func(key string) bool { return f.cameFromMachine(kind, key) || f.in.Group.Owned.Of(kind).Has(key) },
		Skip: func(key string) bool {
			_, declared := desired[key]
			return f.isGuarded(kind, key) || f.contended(OnNode, kind, key, problems) || !declared && f.awaitsGroup(kind, key)
		},
		NeedsConfirmation: func(key string) bool {
			if _, declared := desired[key]; declared && f.confirmsDeclared(kind, key, after) {
				return false
			}
			return ownership.NodeRestricted(kind, key) && !f.machineRecord.Owned(kind).Has(key)
		},
		Disown: func(key string) bool {
			return kind == ownership.Taint && f.isOnce(key) || f.isGrouped(kind, key, f.nodeLive[kind][key])
		},
		Policy: f.policy(),
		Now:    f.in.Now,
	})
}

// released returns the keys of a kind that were removed from the Node recently, without keys that its NodeGroup has set again since.
func (f *facts) released(kind ownership.Kind) map[string]ownership.Release {
	released := maps.Clone(f.nodeRecord.Released[kind])
	maps.DeleteFunc(released, func(key string, release ownership.Release) bool { return f.isGrouped(kind, key, release.Value) })
	return released
}

// isGrouped reports whether the Node's NodeGroup keeps a key with a value.
func (f *facts) isGrouped(kind ownership.Kind, key, value string) bool {
	kept, found := f.in.Group.Kept[kind][key]
	return found && kept == value
}

// awaitsGroup reports whether the Node's NodeGroup keeps a key as the Node has it, and has not recorded that yet: it may be suspended, or has other
// Nodes before.
func (f *facts) awaitsGroup(kind ownership.Kind, key string) bool {
	return f.isGrouped(kind, key, f.nodeLive[kind][key]) && !f.in.Group.Owned.Of(kind).Has(key)
}

// losesKeys reports whether a Node has keys that its MachineSet, nil for none, does not declare any more, or has lost some lately: then it matters
// which keys its NodeGroup keeps.
func losesKeys(node *corev1.Node, declaration *Declaration) bool {
	text := node.Annotations[ownership.AnnotationRecord]
	if text == "" {
		return false
	}
	record, err := ownership.ParseRecord(text)
	if err != nil || len(record.Released) > 0 {
		return err == nil
	}
	for _, kind := range ownership.Kinds {
		for key := range record.Of(kind) {
			if declaration == nil {
				return true
			}
			if _, declared := declaration.Desired[kind][key]; !declared {
				return true
			}
		}
	}
	return false
}

// confirmsDeclared reports whether the Machine confirms a declared key that its record does not name. An entry of the Machine's own is named from
// this reconciliation on. A Machine that must not be written has no record that could name it.
func (f *facts) confirmsDeclared(kind ownership.Kind, key string, after map[string]string) bool {
	if !f.machineWritable() {
		return true
	}
	if f.in.Declaration != nil {
		if _, byMachineSet := f.in.Declaration.Desired[kind][key]; byMachineSet {
			return false
		}
	}
	_, own := after[key]
	return own
}

// nodeDesired returns the desired entries of the Node: the declaration's entries, and the Machine's own entries for keys that the declaration lacks.
func (f *facts) nodeDesired(kind ownership.Kind, after map[string]string, problems *problemList) map[string]string {
	desired := map[string]string{}
	if f.in.Declaration != nil {
		maps.Copy(desired, f.in.Declaration.Desired[kind])
	}
	for key, value := range after {
		if _, declared := desired[key]; !declared && f.appliesToNode(kind, key) && problems.validate(kind, key, value) {
			desired[key] = value
		}
	}
	return f.withoutOnce(kind, desired)
}

// appliesToNode reports whether an entry of the Machine's own applies to its Node. On a Machine that may not be written, what is no longer declared
// stays and looks like the Machine's own: there only what was recorded as such before still applies.
func (f *facts) appliesToNode(kind ownership.Kind, key string) bool {
	if f.machineWritable() || f.in.Declaration == nil {
		return true
	}
	own := f.nodeRecord.Machine
	return own != nil && own.Of(kind).Has(key)
}

// addSetOnceTaints adds the taints that are set with the first write of a Node only, and returns all that have been set. Taints of the system are
// refused like any other.
func (f *facts) addSetOnceTaints(result *ownership.Result, problems *problemList) ownership.Keys {
	once := f.nodeRecord.Once
	if f.in.Declaration == nil || f.in.Declaration.Once.Len() == 0 {
		return once
	}
	once = once.Clone()
	protected := f.in.Protected.Of(ownership.Taint)
	for key := range f.in.Declaration.Once {
		desired := f.in.Declaration.Desired[ownership.Taint][key]
		live, present := f.nodeLive[ownership.Taint][key]
		switch {
		case protected(key):
			if !present || live != desired {
				problems.refused(ownership.Taint, key)
			}
		case f.lacksGuarded(ownership.Taint, key):
			// It is for Nodes that have no Pods yet.
		case f.firstWrite:
			if !present {
				result.Put(key, desired)
			}
			once.Add(key)
		}
	}
	return once
}

// drifted reports whether the Node's changes restore what Drover owned. A key that was declared before and not owned becomes owned only now: a
// conflict has ended, or the policy has changed.
func (f *facts) drifted(change Change, known bool) bool {
	for _, kind := range ownership.Kinds {
		result := change.Results[kind]
		if len(result.Returned) > 0 {
			return true
		}
		if !known || !result.Changed() {
			continue
		}
		owned := f.nodeOwned(kind, nil)
		if owned.And(ownership.KeysOf(result.Set)).Len() > 0 || owned.And(ownership.NewKeys(result.Remove...)).Len() > 0 {
			return true
		}
	}
	return false
}

// newRecord returns the Node's record with what is owned after the change.
func (f *facts) newRecord(change Change, desired Entries, once ownership.Keys) ownership.Record {
	record := ownership.Record{Once: once, Digest: f.digest(desired), Released: map[ownership.Kind]map[string]ownership.Release{}}
	machine := ownership.Section{}
	for _, kind := range ownership.Kinds {
		result := change.Results[kind]
		declaredKeys := f.declaredKeys(kind, result.Owned, desired[kind])
		record.Section = record.With(kind, declaredKeys)
		machine = machine.With(kind, result.Owned.Minus(declaredKeys))
		if len(result.Released) > 0 {
			record.Released[kind] = result.Released
		}
	}
	record.Machine = &machine
	if f.in.Declaration != nil {
		record.Source, record.Generation = f.in.Declaration.Key.Name, f.in.Declaration.Generation
		if record.Empty() && !f.firstWrite {
			// Without a record this Node would look new, and would get the taints that are set once now.
			record.Once = f.in.Declaration.Once
		}
	}
	return record
}

// declaredKeys returns the owned keys that came from the MachineSet. A key that is no longer declared and could not be removed yet stays the
// MachineSet's: as the Machine's own, it would never be removed from the Node of a Machine that may not be written.
func (f *facts) declaredKeys(kind ownership.Kind, owned ownership.Keys, desired map[string]string) ownership.Keys {
	left := owned.Minus(ownership.KeysOf(desired))
	if own := f.nodeRecord.Machine; own != nil {
		left = left.Minus(own.Of(kind))
	}
	return owned.And(f.declarationKeys(kind)).Union(left)
}

func (f *facts) declarationKeys(kind ownership.Kind) ownership.Keys {
	if f.in.Declaration == nil {
		// A Machine whose MachineSet is gone or has released it keeps what it has, as the MachineSet's.
		return f.nodeRecord.Of(kind)
	}
	return ownership.KeysOf(f.in.Declaration.Desired[kind])
}

// digest identifies what is declared, without what is refused: declaring such a key writes nothing, so that the digest on the Node would be outdated
// and the next manual edit would be mistaken for a rollout.
func (f *facts) digest(desired Entries) string { return desired.digestWithout(f.in.Protected) }

// outdated reports whether the records on the Node name other keys than the new one. MNMO's list is not created where no labels are declared: nothing
// is ever written then.
func (f *facts) outdated(record ownership.Record) bool {
	return !record.SameKeys(f.nodeRecord) || !record.Labels.Equal(f.customLabels) && (f.hasCustomLabels || record.Labels.Len() > 0)
}
