package ui

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/undecodable"
)

// store keeps the objects of a kind that a watch brings, up to a size. It is a ReflectorStore of client-go. Objects that it has returned are never
// changed.
type store struct {
	// most is how many bytes of objects it keeps.
	most int
	// trim drops what the page does not read of an object.
	trim func(client.Object)
	// changed is called after objects have changed, in the order of the changes.
	changed func([]change)

	mu      sync.Mutex
	objects map[types.NamespacedName]stored
	size    int
	// full reports that an object was left out.
	full bool
	// problems are why objects cannot be decoded.
	problems map[types.NamespacedName]error
}

// change is an object that has changed; a nil object is gone.
type change struct {
	key    types.NamespacedName
	object client.Object
}

type stored struct {
	object client.Object
	size   int
}

func newStore(most int, trim func(client.Object), changed func([]change)) *store {
	return &store{most: most, trim: trim, changed: changed, objects: map[types.NamespacedName]stored{}, problems: map[types.NamespacedName]error{}}
}

// Add keeps an object.
func (s *store) Add(object any) error {
	s.mu.Lock()
	changes := s.set(object, s.objects)
	s.mu.Unlock()
	s.report(changes)
	return nil
}

// Update keeps an object in place of an earlier one.
func (s *store) Update(object any) error { return s.Add(object) }

// Delete drops an object.
func (s *store) Delete(object any) error {
	known, ok := object.(client.Object)
	if !ok {
		return nil
	}
	key := client.ObjectKeyFromObject(known)
	s.mu.Lock()
	s.drop(key)
	s.mu.Unlock()
	s.report([]change{{key: key}})
	return nil
}

// Replace keeps the objects of a list, and no others.
func (s *store) Replace(list []any, _ string) error {
	var changes []change
	s.mu.Lock()
	before := s.objects
	s.objects, s.size, s.full = make(map[types.NamespacedName]stored, len(list)), 0, false
	clear(s.problems)
	for _, object := range list {
		changes = append(changes, s.set(object, before)...)
	}
	for key := range before {
		if _, kept := s.objects[key]; !kept {
			changes = append(changes, change{key: key})
		}
	}
	s.mu.Unlock()
	s.report(changes)
	return nil
}

// Resync does nothing: no reader needs it.
func (s *store) Resync() error { return nil }

func (s *store) report(changes []change) {
	if len(changes) > 0 {
		s.changed(changes)
	}
}

// drop removes an object.
func (s *store) drop(key types.NamespacedName) {
	s.size -= s.objects[key].size
	delete(s.objects, key)
	delete(s.problems, key)
}

// set keeps an object, if there is space for it, and returns how what the page reads has changed.
func (s *store) set(object any, before map[types.NamespacedName]stored) []change {
	known, ok := object.(client.Object)
	if !ok {
		return nil
	}
	s.trim(known)
	key := client.ObjectKeyFromObject(known)
	old, found := before[key]
	isSame := found && equality.Semantic.DeepEqual(old.object, known)
	if isSame {
		known = old.object
	}
	size := sizeOf(known)
	s.drop(key)
	if s.size+size > s.most {
		s.full = true
		return []change{{key: key}}
	}
	s.objects[key], s.size = stored{known, size}, s.size+size
	if problem := undecodable.Check(known); problem != nil {
		s.problems[key] = problem
	}
	if isSame {
		return nil
	}
	return []change{{key, known}}
}

// count returns how many objects there are, and whether others were left out.
func (s *store) count() (count int, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.objects), s.full
}

// problem returns why one of the objects cannot be decoded, the first by name; nil if all can be.
func (s *store) problem() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) == 0 {
		return nil
	}
	return s.problems[slices.MinFunc(slices.Collect(maps.Keys(s.problems)), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})]
}

// all returns the objects of a store, by namespace and name.
func all[T client.Object](s *store) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]T, 0, len(s.objects))
	for _, each := range s.objects {
		if object, ok := each.object.(T); ok {
			out = append(out, object)
		}
	}
	slices.SortFunc(out, func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return out
}

// sizeOf returns how large an object is, in bytes.
func sizeOf(object client.Object) int {
	if sized, ok := object.(interface{ Size() int }); ok {
		return sized.Size()
	}
	text, err := json.Marshal(object)
	if err != nil {
		// Then the API server could not send it either.
		return 0
	}
	return len(text)
}
