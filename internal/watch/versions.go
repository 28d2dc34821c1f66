package watch

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Versions remembers Drover's own last write of each object. A cache that has not reached it shows the world before the write; deciding
// on that would write twice.
type Versions struct {
	mu      sync.Mutex
	written map[string]Write
}

// Write is one of Drover's own writes.
type Write struct {
	// Version is the resourceVersion that the write made.
	Version string
	// Exact tells that the API server's answer held just what was decided: nobody else's write is in it, its taints aside.
	Exact bool
	// Taints tells that the write changed the taints, which it did only where they were as they had been seen.
	Taints bool
	// Awaited tells that a pass had to give way because the cache had not reached this write.
	Awaited bool
}

// NewVersions makes an empty memory.
func NewVersions() *Versions { return &Versions{written: map[string]Write{}} }

// Wrote notes a write.
func (v *Versions) Wrote(object string, last Write) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[object] = last
}

// Behind tells whether a version from the cache is older than the last write. Versions that cannot be compared are not behind:
// every write is guarded, so the worst is a conflict.
func (v *Versions) Behind(object, cached string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, ok := v.written[object]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached, last.Version)
	if err != nil || order >= 0 {
		return false
	}
	last.Awaited = true
	v.written[object] = last
	return true
}

// Own returns the last write if a version is exactly the one that it made: nobody has touched the object since.
func (v *Versions) Own(object, version string) (Write, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.written[object]
	return last, last.Version == version
}

// Forget drops an object that is gone.
func (v *Versions) Forget(object string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.written, object)
}

// Len is how many objects are remembered.
func (v *Versions) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.written)
}
