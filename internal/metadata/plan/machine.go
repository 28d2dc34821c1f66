package plan

import (
	"maps"

	"github.com/drover-io/drover/internal/ownership"
)

// decideMachine merges the declaration into the Machine's spec, and returns its entries after the change. There the MachineSet always wins; keys that
// it does not and did not declare stay.
func (f *facts) decideMachine(conflicts map[id]bool, problems *problemList) (change Change, after Entries) {
	if !f.machineWritable() {
		return Change{}, f.machineLive
	}
	after = maps.Clone(f.machineLive)
	if f.in.Declaration != nil {
		for _, kind := range ownership.Kinds {
			live := f.machineLive[kind]
			result := ownership.Merge(ownership.Input{
				Owned:     f.machineOwned(kind),
				Desired:   f.withoutOnce(kind, f.in.Declaration.Desired[kind]),
				Live:      live,
				Protected: f.in.Protected.Of(kind),
				Skip: func(key string) bool {
					return conflicts[id{kind, key}] || f.waitsForNode(kind, key) || f.keepsOwnership(kind, key) ||
						f.lacksGuarded(kind, key) || f.contended(OnMachine, kind, key, problems)
				},
				Policy: ownership.Adopt,
				Now:    f.in.Now,
			})
			change.set(kind, result)
			if result.Changed() {
				after[kind] = ownership.Apply(live, result)
			}
		}
	}
	f.finishMachine(&change, after, conflicts, problems)
	return change, after
}

// finishMachine decides the Machine's record and whether there is anything to write. A key that the record need not name any more is no reason to
// write it.
func (f *facts) finishMachine(change *Change, after Entries, conflicts map[id]bool, problems *problemList) {
	record := f.machineRecord
	if f.in.Declaration != nil {
		record = ownership.Record{Source: f.in.Declaration.Key.Name, Generation: f.in.Declaration.Generation}
		for _, kind := range ownership.Kinds {
			record.Section = record.With(kind, change.Results[kind].Owned)
		}
	}
	outdated := !record.Section.Equal(f.machineRecord.Section)
	confirms := ownership.Section{}
	for _, kind := range ownership.Kinds {
		keys := f.confirmed(kind, after[kind], conflicts).Minus(record.Of(kind))
		outdated = outdated || keys.Minus(f.machineRecord.Owned(kind)).Len() > 0
		confirms = confirms.With(kind, keys)
	}
	record.Machine = &confirms
	change.Write = change.Changed() || outdated && !f.recordContended(OnMachine, problems)
	if change.Write {
		change.Record = record.Format()
	}
}

// confirmed returns the restricted keys that the Machine's record has to name, so that they can be removed from the Node later: the keys of the
// Machine, and the keys that the record names already and that may still be on the Node.
func (f *facts) confirmed(kind ownership.Kind, after map[string]string, conflicts map[id]bool) ownership.Keys {
	protected := f.in.Protected.Of(kind)
	keys := ownership.Keys{}
	for key := range after {
		if ownership.NodeRestricted(kind, key) && !protected(key) && (kind != ownership.Taint || !f.isOnce(key)) && !conflicts[id{kind, key}] {
			keys.Add(key)
		}
	}
	for key := range f.machineRecord.Owned(kind).NodeRestricted(kind) {
		if f.mayBeOnNode(kind, key) {
			keys.Add(key)
		}
	}
	return keys
}

// mayBeOnNode reports whether the Node may have an entry of Drover's, now or restored by a writer with a stale cache.
func (f *facts) mayBeOnNode(kind ownership.Kind, key string) bool {
	_, released := f.nodeRecord.Released[kind][key]
	return f.in.Node == nil || released || f.nodeOwned(kind, nil).Has(key) || f.cameFromMachine(kind, key)
}

// machineOwned returns the keys of the Machine's spec that came from the MachineSet. Keys that MNMO has set on the Node since Drover last wrote it
// count as well: MNMO's list names only keys of the MachineSet, and MNMO writes the Machine before the Node. The kubelet can write that list, so
// restricted keys in it do not count.
func (f *facts) machineOwned(kind ownership.Kind) ownership.Keys {
	owned := f.machineRecord.Of(kind)
	if kind == ownership.Label {
		fromNode := f.customLabels.Minus(f.nodeRecord.Labels)
		owned = owned.Union(fromNode.Minus(fromNode.NodeRestricted(kind)))
	}
	if kind == ownership.Taint && f.in.Node != nil && f.in.Declaration.Once.Len() > 0 {
		owned = owned.Clone()
		for key := range f.in.Declaration.Once {
			if value, ok := f.machineLive[kind][key]; ok && value == f.in.Declaration.Desired[kind][key] {
				// If it stayed on the Machine, nodelink would restore it on the Node for ever.
				owned.Add(key)
			}
		}
	}
	return owned
}

// waitsForNode reports whether a set-once taint stays on a Machine because there is no Node yet that can get it.
func (f *facts) waitsForNode(kind ownership.Kind, key string) bool {
	return kind == ownership.Taint && f.isOnce(key) && !f.hasNode()
}
