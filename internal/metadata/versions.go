package metadata

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// versions remembers Drover's own last write of each object. A cache that has not reached it shows the world before the write; deciding
// on that would write twice.
type versions struct {
	mu      sync.Mutex
	written map[string]write
}

type write struct {
	// version is the resourceVersion that the write made.
	version string
	// exact tells that the API server's answer held just what was decided: nobody else's write is in it, its taints aside.
	exact bool
	// taints tells that the write changed the taints, which it did only where they were as they had been seen.
	taints bool
	// awaited tells that a pass had to give way because the cache had not reached this write.
	awaited bool
}

func newVersions() *versions { return &versions{written: map[string]write{}} }

// wrote notes a write.
func (v *versions) wrote(object string, last write) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[object] = last
}

// behind tells whether a version from the cache is older than the last write. Versions that cannot be compared are not behind:
// every write is guarded, so the worst is a conflict.
func (v *versions) behind(object, cached string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, ok := v.written[object]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached, last.version)
	if err != nil || order >= 0 {
		return false
	}
	last.awaited = true
	v.written[object] = last
	return true
}

// own returns the last write if a version is exactly the one that it made: nobody has touched the object since.
func (v *versions) own(object, version string) (write, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.written[object]
	return last, last.version == version
}

// forget drops an object that is gone.
func (v *versions) forget(object string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.written, object)
}
