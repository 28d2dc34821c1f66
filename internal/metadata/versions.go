package metadata

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// versions remembers the resourceVersion of Drover's own last write of each object. A cache that has not reached it shows the world
// before the write; deciding on that would write twice.
type versions struct {
	mu      sync.Mutex
	written map[string]string
}

func newVersions() *versions { return &versions{written: map[string]string{}} }

// wrote notes the version that a write made.
func (v *versions) wrote(object, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[object] = version
}

// behind tells whether a version from the cache is older than the last write. Versions that cannot be compared are not behind:
// every write is guarded, so the worst is a conflict.
func (v *versions) behind(object, cached string) bool {
	v.mu.Lock()
	written, ok := v.written[object]
	v.mu.Unlock()
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached, written)
	return err == nil && order < 0
}

// own tells whether a version is exactly the one that the last write made: nobody has touched the object since.
func (v *versions) own(object, version string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.written[object] == version
}

// forget drops an object that is gone.
func (v *versions) forget(object string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.written, object)
}
