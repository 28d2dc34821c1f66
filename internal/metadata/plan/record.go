package plan

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/patch"
)

// RecordUpdate is what is written to a Node before its Machine is: no entry, only the record that Drover owns some of them.
//
// A value on a Node that no record names is Drover's when the Machine has the same: the creation of the Machine or nodelink copied it. After the
// Machine is written, that cannot be seen any more. If the write of the Node then failed, or the operator ended between the two, the value would
// count as another writer's and stay for ever.
type RecordUpdate struct {
	// Record is the new text of the ownership record; empty where nothing has to be recorded.
	Record string
	// CustomLabels is MNMO's list with the recorded labels; empty where it does not change.
	CustomLabels string
	// Keys are the keys that become owned, by kind.
	Keys recordedKeys
}

// Write reports whether there is anything to record.
func (u RecordUpdate) Write() bool { return u.Record != "" }

// recordUpdate decides what is recorded before the Machine is written as decided. Only the owned keys of the record change: without a digest it does
// not make the Node look as if it had been written, and with the old digest a rollout is not mistaken for drift.
func (f *facts) recordUpdate(machine Change) RecordUpdate {
	if !f.hasNode() || !machine.Write {
		return RecordUpdate{}
	}
	keys, record, found := recordedKeys{}, f.nodeRecord, false
	for _, kind := range ownership.Kinds {
		keys[kind] = f.inheritedKeys(kind, machine.Results[kind])
		record.Section = record.With(kind, record.Of(kind).Union(keys[kind]))
		found = found || keys[kind].Len() > 0
	}
	if !found {
		return RecordUpdate{}
	}
	if !f.firstWrite && record.Digest == "" {
		record.Digest = noDigest
	}
	update := RecordUpdate{Record: record.Format(), Keys: keys}
	// Where MNMO's list stands it is the truth about labels; where there is none, one would say that MNMO had been here.
	if labels := keys[ownership.Label]; f.hasCustomLabels && labels.Len() > 0 {
		update.CustomLabels = ownership.FormatCustomLabels(f.customLabels.Union(labels))
	}
	return update
}

// inheritedKeys returns the keys of a kind that only the Machine's value shows to be Drover's, and that the write of the Machine changes.
func (f *facts) inheritedKeys(kind ownership.Kind, result ownership.Result) ownership.Keys {
	keys := ownership.Keys{}
	for key := range ownership.KeysOf(result.Set).Union(ownership.NewKeys(result.Remove...)) {
		if f.ownedThroughMachine(kind, key) {
			keys.Add(key)
		}
	}
	return keys
}

// ownedThroughMachine reports whether only the Machine's value shows that the Node's is Drover's. Drover does not own a taint that is set once.
func (f *facts) ownedThroughMachine(kind ownership.Kind, key string) bool {
	return f.cameFromMachine(kind, key) && !f.nodeOwned(kind, nil).Has(key) && (kind != ownership.Taint || !f.isOnce(key))
}

// keepsOwnership reports whether an entry has to stay on the Machine because it shows what Drover owns on a Node that may not be written now.
func (f *facts) keepsOwnership(kind ownership.Kind, key string) bool {
	return f.in.Node != nil && !f.hasNode() && f.ownedThroughMachine(kind, key)
}

// noDigest is the digest in a RecordUpdate of a Node that had no digest and yet is not new. No declaration has it.
const noDigest = "none"

// isRecordUpdate reports whether a RecordUpdate alone has written a record: the Node has been given nothing yet.
func isRecordUpdate(record ownership.Record) bool { return record.Digest == "" && !record.Empty() }

// RecordPatch renders an update as a JSON Patch of the Node as it was observed. The patch tests that the recorded entries still have the same values,
// and that the record has not changed since it was read.
func RecordPatch(node *corev1.Node, update RecordUpdate) ([]byte, error) {
	b := &patchBuilder{}
	b.guardRecords(node.Annotations, ownership.AnnotationRecord)
	for _, key := range update.Keys[ownership.Label].Sorted() {
		b.TestEntry("/metadata/labels", node.Labels, key)
	}
	for _, key := range update.Keys[ownership.Annotation].Sorted() {
		b.TestEntry("/metadata/annotations", node.Annotations, key)
	}
	if update.Keys[ownership.Taint].Len() > 0 {
		b.Test("/spec/taints", node.Spec.Taints)
	}
	b.text(node.Annotations, ownership.AnnotationRecord, update.Record)
	if update.CustomLabels != "" {
		b.Set(patch.Pointer("/metadata/annotations", ownership.AnnotationCustomLabels), update.CustomLabels)
	}
	return b.Bytes()
}

// WithRecord returns the Node as it is when an update has been written. The given Node is not changed.
func WithRecord(node *corev1.Node, update RecordUpdate) *corev1.Node {
	after := *node
	after.Annotations = maps.Clone(node.Annotations)
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[ownership.AnnotationRecord] = update.Record
	if update.CustomLabels != "" {
		after.Annotations[ownership.AnnotationCustomLabels] = update.CustomLabels
	}
	return &after
}
