package view

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/drover-io/drover/internal/ownership"
)

// Manager is a field manager that wrote an entry, from metadata.managedFields. Two managers that wrote the same value are both listed.
// The list of taints is atomic: only the writers of the whole list are known.
type Manager struct {
	Name        string     `json:"name"`
	Operation   string     `json:"operation,omitempty"`
	Subresource string     `json:"subresource,omitempty"`
	Time        *time.Time `json:"time,omitempty"`
}

// managers are the field managers of an object, with the fields that each has written.
type managers []manager

type manager struct {
	Manager
	fields *fieldpath.Set
}

// managersOf reads managedFields, the latest write first. It skips entries that it cannot read.
func managersOf(entries []metav1.ManagedFieldsEntry) managers {
	var found managers
	for _, entry := range entries {
		if entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			continue
		}
		m := manager{Manager{Name: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource}, set}
		if entry.Time != nil {
			m.Time = timeOf(entry.Time.Time)
		}
		found = append(found, m)
	}
	slices.SortStableFunc(found, func(a, b manager) int { return ptr.Deref(b.Time, time.Time{}).Compare(ptr.Deref(a.Time, time.Time{})) })
	return found
}

// of returns the managers of an entry of a Node, the latest first.
func (m managers) of(kind ownership.Kind, key string) []Manager {
	path := fieldpath.MakePathOrDie("spec", "taints")
	switch kind {
	case ownership.Label:
		path = fieldpath.MakePathOrDie("metadata", "labels", key)
	case ownership.Annotation:
		path = fieldpath.MakePathOrDie("metadata", "annotations", key)
	}
	var found []Manager
	for _, candidate := range m {
		if candidate.fields.Has(path) {
			found = append(found, candidate.Manager)
		}
	}
	return found
}
