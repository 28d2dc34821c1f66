package ownership

import (
	"encoding/json"
	"fmt"

	"k8s.io/utils/lru"
)

// Annotations that record ownership.
const (
	// AnnotationRecord holds a Record as JSON, on Nodes and on Machines.
	AnnotationRecord = "drover.dev/owned-metadata"
	// AnnotationGroupRecord holds, as JSON, the Record of what a Node has from its NodeGroup. It is an annotation of its own, so that a version of
	// Drover that does not know NodeGroups keeps it when it writes the other record.
	AnnotationGroupRecord = "drover.dev/group-owned-metadata"
	// AnnotationCustomLabels is the managed-node-metadata-operator's record on the Node: the keys of the labels that came from the
	// MachineSet, joined by commas. Drover keeps it up to date so that a cluster can go back and forth between the two.
	AnnotationCustomLabels = "managed.openshift.com/customlabels"
)

// MaxRecordBytes bounds the text that ParseRecord reads, and what the cache keeps of it: a record of 400 keys is about half as long. All annotations
// of an object together may take 256 KiB.
const MaxRecordBytes = 32 << 10

// Section lists keys by kind. Taints are named "key:Effect".
type Section struct {
	Labels      Keys `json:"labels,omitempty"`
	Annotations Keys `json:"annotations,omitempty"`
	Taints      Keys `json:"taints,omitempty"`
}

// Of returns the keys of a kind, nil for none.
func (s Section) Of(kind Kind) Keys {
	switch kind {
	case Label:
		return s.Labels
	case Annotation:
		return s.Annotations
	default:
		return s.Taints
	}
}

// With returns the section with the keys of one kind replaced.
func (s Section) With(kind Kind, keys Keys) Section {
	switch kind {
	case Label:
		s.Labels = keys
	case Annotation:
		s.Annotations = keys
	default:
		s.Taints = keys
	}
	return s
}

// Equal reports whether both sections name the same keys.
func (s Section) Equal(other Section) bool {
	for _, kind := range Kinds {
		if !s.Of(kind).Equal(other.Of(kind)) {
			return false
		}
	}
	return true
}

// Empty reports whether the section names nothing.
func (s Section) Empty() bool { return s.Equal(Section{}) }

// Record is what Drover owns on an object. The zero value owns nothing.
type Record struct {
	// Section holds the keys that came from the MachineSet.
	Section
	// Machine holds, in the record of a Node, the keys that only its Machine has. In the record of a Machine it holds the restricted keys
	// (see NodeRestricted) that its Node may have and that Section does not name: the Machine's own, and the keys that the MachineSet no longer
	// declares. There it confirms what the record of the Node says.
	Machine *Section `json:"machine,omitempty"`
	// Once names the taints that were set once, and are not owned.
	Once Keys `json:"once,omitempty"`
	// Released are the keys that were removed recently, by kind.
	Released map[Kind]map[string]Release `json:"released,omitempty"`
	// Source is the name of the MachineSet or NodeGroup that the keys came from.
	Source string `json:"pool,omitempty"`
	// Generation is the metadata.generation of the source at the last write.
	Generation int64 `json:"generation,omitempty"`
	// Digest identifies what was declared at the last write; when it is the same now, any difference is drift.
	Digest string `json:"digest,omitempty"`
	// Timeout is set in the record of a NodeGroup's Node while its taints wait for Pods that did not leave in time.
	Timeout *Timeout `json:"timeout,omitempty"`
}

// Timeout records that Pods had to leave a Node and did not in time.
type Timeout struct {
	// Attempts is how many attempts to evict them have timed out.
	Attempts int `json:"attempts"`
	// Retry is when the next attempt may begin, in seconds since 1970.
	Retry int64 `json:"retry"`
	// Pod is a Pod that was left, as namespace/name.
	Pod string `json:"pod,omitempty"`
}

// Equal reports whether both are the same; nil is none.
func (t *Timeout) Equal(other *Timeout) bool {
	return t == other || t != nil && other != nil && *t == *other
}

// Owned returns all owned keys of a kind, from the MachineSet and from the Machine. The set may be the record's own, which must not be changed.
func (r Record) Owned(kind Kind) Keys {
	if r.Machine == nil {
		return r.Of(kind)
	}
	return r.Of(kind).Union(r.Machine.Of(kind))
}

// Empty reports whether there is nothing to record, so that the annotation may be removed.
func (r Record) Empty() bool {
	return r.Section.Empty() && (r.Machine == nil || r.Machine.Empty()) && r.Once.Len() == 0 && len(r.Released) == 0 && r.Timeout == nil
}

// SameKeys reports whether both records name the same keys as owned or set once; times, generation and digest may differ.
func (r Record) SameKeys(other Record) bool {
	return r.Section.Equal(other.Section) && r.machine().Equal(other.machine()) && r.Once.Equal(other.Once)
}

func (r Record) machine() Section {
	if r.Machine == nil {
		return Section{}
	}
	return *r.Machine
}

// ParseRecord parses the text of AnnotationRecord. Empty text is an empty record. For text that is not a record, as after
// a manual edit, it returns an error and an empty record: only what is recorded is owned. The record shares its sets and maps with others of the same
// text: they must not be changed.
func ParseRecord(text string) (Record, error) {
	return parseRecord(AnnotationRecord, text)
}

// ParseGroupRecord is ParseRecord for the text of AnnotationGroupRecord.
func ParseGroupRecord(text string) (Record, error) {
	return parseRecord(AnnotationGroupRecord, text)
}

// parsed are the records of the texts that were parsed last. All Nodes of a group or MachineSet have the same text, and it is read several times in
// each reconciliation of a Node and of its group. Longer texts than most are not kept, so that a tenant can fill it with some megabytes at most.
var parsed = lru.New(1024)

const maxKept = 2 << 10

func parseRecord(annotation, text string) (Record, error) {
	if text == "" {
		return Record{}, nil
	}
	if kept, found := parsed.Get(text); found {
		if record, ok := kept.(Record); ok {
			return record, nil
		}
	}
	if len(text) > MaxRecordBytes {
		return Record{}, fmt.Errorf("annotation %s has %d bytes, at most %d are read: nothing is taken as owned",
			annotation, len(text), MaxRecordBytes)
	}
	var record Record
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return Record{}, fmt.Errorf("annotation %s is not a record of owned keys, nothing is taken as owned: %.60s: %w", annotation, text, err)
	}
	if len(text) <= maxKept {
		parsed.Add(text, record)
	}
	return record, nil
}

// Format returns the record as JSON. Equal records have equal text; an empty record is the empty string.
func (r Record) Format() string {
	if r.Empty() {
		return ""
	}
	if r.Machine != nil && r.Machine.Empty() {
		r.Machine = nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		// Strings, numbers and maps of them always marshal.
		panic(fmt.Sprintf("ownership: record does not marshal: %v", err))
	}
	return string(text)
}
