package plan

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/patch"
)

// RecordUpdate is what has to be written to a Node before its Machine is: no entry, only the record that some entries are Drover's.
//
// A value on a Node that no record names is known to be Drover's only by standing on the Machine as well, to which machine creation or
// nodelink owes it. The write of the Machine ends that. Were the Node's own write to fail after it, or the operator to be killed between
// the two, the value would look like somebody else's from then on, and stay for ever.
type RecordUpdate struct {
	// Record is the new text of the ownership record, empty where nothing has to be claimed.
	Record string
	// CustomLabels is MNMO's list with the claimed labels, empty where it stays as it is.
	CustomLabels string
	// Keys are the keys that are claimed, by kind.
	Keys map[ownership.Kind]ownership.Keys
}

// Write tells whether there is anything to claim.
func (c RecordUpdate) Write() bool { return c.Record != "" }

// claim finds what has to be claimed before the Machine is written as decided. The record goes on as it was but for the claimed keys: without
// a digest of its own it is no sign that the Node has been given anything yet, and with the old one a roll-out stays a roll-out.
func (s *scope) claim() {
	if !s.hasNode() || !s.out.Machine.Write {
		return
	}
	claims, record, found := map[ownership.Kind]ownership.Keys{}, s.nodeRecord, false
	for _, kind := range ownership.Kinds {
		claims[kind] = s.claimed(kind)
		record.Section = record.With(kind, record.Of(kind).Union(claims[kind]))
		found = found || claims[kind].Len() > 0
	}
	if !found {
		return
	}
	if !s.firstWrite && record.Digest == "" {
		record.Digest = noDigest
	}
	s.claims = claims
	s.out.RecordUpdate = RecordUpdate{Record: record.Format(), Keys: claims}
	// Where MNMO's list stands it is the truth about labels; where there is none, one would say that MNMO had been here.
	if labels := claims[ownership.Label]; s.hasCustomLabels && labels.Len() > 0 {
		s.out.RecordUpdate.CustomLabels = ownership.FormatCustomLabels(s.customLabels.Union(labels))
	}
}

// claimed are the keys of a kind whose only proof the coming write of the Machine ends.
func (s *scope) claimed(kind ownership.Kind) ownership.Keys {
	result, keys := s.out.Machine.Results[kind], ownership.Keys{}
	for key := range ownership.KeysOf(result.Set).Union(ownership.NewKeys(result.Remove...)) {
		if s.provenByMachineOnly(kind, key) {
			keys.Add(key)
		}
	}
	return keys
}

// provenByMachineOnly tells that a value on the Node is known to be Drover's by the Machine's alone. A taint that is given once is not
// Drover's once it is given.
func (s *scope) provenByMachineOnly(kind ownership.Kind, key string) bool {
	return s.cameFromMachine(kind, key) && !s.nodeOwned(kind).Has(key) && (kind != ownership.Taint || !s.isOnce(key))
}

// wouldLoseProof keeps an entry on the Machine as the proof that it is for a Node that may not be written now, and so cannot be claimed.
func (s *scope) wouldLoseProof(kind ownership.Kind, key string) bool {
	return s.in.Node != nil && !s.hasNode() && s.provenByMachineOnly(kind, key)
}

// noDigest is the digest in a claim for a Node that had no digest and yet is not new. It is that of nothing.
const noDigest = "none"

// onlyClaimed tells a record that a claim alone has made: nothing has been given to the Node yet.
func onlyClaimed(record ownership.Record) bool { return record.Digest == "" && !record.Empty() }

// RecordPatch renders a claim as a JSON Patch of the Node as it was seen. What is claimed must still be there with the same value, and the
// record must be the one that was read.
func RecordPatch(node *corev1.Node, claim RecordUpdate) ([]byte, error) {
	b := &patchBuilder{}
	b.guardRecord(node.Annotations)
	for _, key := range claim.Keys[ownership.Label].Sorted() {
		b.TestEntry("/metadata/labels", node.Labels, key)
	}
	for _, key := range claim.Keys[ownership.Annotation].Sorted() {
		b.TestEntry("/metadata/annotations", node.Annotations, key)
	}
	if claim.Keys[ownership.Taint].Len() > 0 {
		b.Test("/spec/taints", node.Spec.Taints)
	}
	b.text(node.Annotations, ownership.AnnotationRecord, claim.Record)
	if claim.CustomLabels != "" {
		b.Set(patch.Pointer("/metadata/annotations", ownership.AnnotationCustomLabels), claim.CustomLabels)
	}
	return b.Bytes()
}

// WithRecord is the Node as it is once a claim is written. The Node that is given is not changed.
func WithRecord(node *corev1.Node, claim RecordUpdate) *corev1.Node {
	after := *node
	after.Annotations = maps.Clone(node.Annotations)
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[ownership.AnnotationRecord] = claim.Record
	if claim.CustomLabels != "" {
		after.Annotations[ownership.AnnotationCustomLabels] = claim.CustomLabels
	}
	return &after
}
