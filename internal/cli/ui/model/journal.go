package model

import (
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
)

// Item is a value of a list, with a key that no other value of the list has.
type Item interface{ Key() string }

// Changes are how a list becomes another one.
type Changes[T Item] struct {
	// Full reports that Set is the whole list.
	Full bool `json:"full,omitempty"`
	// Set are the new and the changed values, Gone the keys of the values that are not there any more.
	Set  []T      `json:"set"`
	Gone []string `json:"gone,omitempty"`
	// Omitted is how many more values there are now, which the list leaves out.
	Omitted int `json:"omitted,omitempty"`
	// resized reports that Omitted has changed.
	resized bool
}

// Any reports whether there is a change.
func (c *Changes[T]) Any() bool { return c.Full || c.resized || len(c.Set)+len(c.Gone) > 0 }

// Journal is a list whose readers ask for what has changed since they asked last. It is safe for concurrent use.
type Journal[T Item] struct {
	mu sync.Mutex
	// version counts updates from 1 on. A reader that has nothing has version 0.
	version uint64
	values  map[string]T
	// omitted is how many more values there are, resized the version that has changed it.
	omitted int
	resized uint64
	// log has the keys that have changed, the oldest first. What changed before it is not known.
	log    []logged
	before uint64
}

// logged is a change of the value of a key.
type logged struct {
	version uint64
	key     string
}

// minLog is how many changes a journal keeps at least. It keeps twice as many as it has values, so that a reader gets the whole list instead of more
// changes.
const minLog = 1024

// NewJournal returns an empty list.
func NewJournal[T Item]() *Journal[T] { return &Journal[T]{version: 1, values: map[string]T{}} }

// Update changes values and removes keys, and reports whether that is a change.
func (j *Journal[T]) Update(set []T, gone []string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.update(set, gone, j.omitted)
}

// Replace makes the values the whole list, which leaves out omitted more, and reports whether that is a change.
func (j *Journal[T]) Replace(values []T, omitted int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := make(map[string]bool, len(values))
	for _, value := range values {
		kept[value.Key()] = true
	}
	var gone []string
	for key := range j.values {
		if !kept[key] {
			gone = append(gone, key)
		}
	}
	return j.update(values, gone, omitted)
}

func (j *Journal[T]) update(set []T, gone []string, omitted int) bool {
	next, changed := j.version+1, false
	if j.omitted != omitted {
		j.omitted, j.resized, changed = omitted, next, true
	}
	note := func(key string) { j.log, changed = append(j.log, logged{next, key}), true }
	for _, value := range set {
		key := value.Key()
		if old, found := j.values[key]; !found || !reflect.DeepEqual(old, value) {
			j.values[key] = value
			note(key)
		}
	}
	for _, key := range gone {
		if _, found := j.values[key]; found {
			delete(j.values, key)
			note(key)
		}
	}
	if !changed {
		return false
	}
	j.version = next
	if most := max(minLog, 2*len(j.values)); len(j.log) > 2*most {
		drop := len(j.log) - most
		j.before = j.log[drop-1].version
		j.log = slices.Clone(j.log[drop:])
	}
	return true
}

// Since returns what has changed since a version, and the version now. Since 0 it is the whole list, also of an empty one.
func (j *Journal[T]) Since(version uint64) (Changes[T], uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changes := Changes[T]{Set: []T{}, Omitted: j.omitted, resized: j.resized > version}
	if version == 0 || version < j.before {
		changes.Full = true
		for _, key := range slices.Sorted(maps.Keys(j.values)) {
			changes.Set = append(changes.Set, j.values[key])
		}
		return changes, j.version
	}
	first := sort.Search(len(j.log), func(i int) bool { return j.log[i].version > version })
	seen := make(map[string]bool, len(j.log)-first)
	for _, entry := range j.log[first:] {
		if seen[entry.key] {
			continue
		}
		seen[entry.key] = true
		if value, found := j.values[entry.key]; found {
			changes.Set = append(changes.Set, value)
		} else {
			changes.Gone = append(changes.Gone, entry.key)
		}
	}
	return changes, j.version
}

// All returns the list, by key.
func (j *Journal[T]) All() []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	values := slices.AppendSeq(make([]T, 0, len(j.values)), maps.Values(j.values))
	slices.SortFunc(values, func(a, b T) int { return strings.Compare(a.Key(), b.Key()) })
	return values
}

// Len returns how many values there are.
func (j *Journal[T]) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.values)
}

// Omitted returns how many more values there are, which the list leaves out.
func (j *Journal[T]) Omitted() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.omitted
}

// Get returns the value of a key.
func (j *Journal[T]) Get(key string) (value T, found bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	value, found = j.values[key]
	return value, found
}
