package operator

import (
	"hash/maphash"
	"maps"
	"sync"
	"unique"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/ownership"
)

// shareMetadata has objects share the texts of labels and annotations that thousands of them have in common. Of annotations it is the keys, and the
// records of what Drover owns: other values are long.
func shareMetadata(object client.Object) {
	object.SetLabels(shareTexts(object.GetLabels(), func(_, value string) bool { return value != object.GetName() }))
	object.SetAnnotations(shareTexts(object.GetAnnotations(), isShortRecord))
}

// maxSharedRecord is the longest record that is shared, in bytes.
const maxSharedRecord = 2 << 10

func isShortRecord(key, value string) bool {
	return (key == ownership.AnnotationRecord || key == ownership.AnnotationGroupRecord) && len(value) <= maxSharedRecord
}

func shareTexts(texts map[string]string, shared func(key, value string) bool) map[string]string {
	if len(texts) == 0 {
		return texts
	}
	all := make(map[string]string, len(texts))
	for key, value := range texts {
		if shared(key, value) {
			value = share(value)
		}
		all[share(key)] = value
	}
	return all
}

// share returns the one copy of a text that many objects have.
func share[T ~string](text T) T { return unique.Make(text).Value() }

// sharedMaps are the labels and annotations that all Machines of a MachineSet have in common. They are never changed: objects of the cache are
// read-only.
var sharedMaps mapTable

// shareMachine has Machines share the texts of their labels and annotations, and the maps of those that are equal.
func shareMachine(machine *machinev1beta1.Machine) {
	shareMetadata(machine)
	for _, texts := range []*map[string]string{&machine.Labels, &machine.Annotations, &machine.Spec.Labels, &machine.Spec.Annotations} {
		*texts = sharedMaps.share(*texts)
	}
}

// maxSharedMap is the most, in bytes, of keys and values of a map that is shared, so that no tenant can fill the memory with what no Machine has any
// longer.
const maxSharedMap = 4 << 10

// mapTable keeps maps, each until another one takes its place. The zero value is empty. It is safe for concurrent use.
type mapTable struct {
	mu   sync.Mutex
	maps [1024]map[string]string
}

var mapSeed = maphash.MakeSeed()

// share returns a map with the same entries, which others may have, too.
func (t *mapTable) share(texts map[string]string) map[string]string {
	sum, size := uint64(0), 0
	for key, value := range texts {
		// The sum does not depend on the order.
		sum += maphash.String(mapSeed, key) * (maphash.String(mapSeed, value) | 1)
		size += len(key) + len(value)
	}
	if len(texts) == 0 || size > maxSharedMap {
		return texts
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	place := &t.maps[sum%uint64(len(t.maps))]
	if !maps.Equal(*place, texts) {
		*place = texts
	}
	return *place
}
