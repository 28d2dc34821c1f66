package expectations

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// patience is how long a cache may be behind a write before the write is forgotten. Objects go back when etcd is restored from a backup:
// then no cache ever reaches what was written before.
const patience = time.Minute

// Objects remembers Drover's own last write of each object. A cache that has not reached it shows the world before the write; deciding
// on that would write twice.
type Objects struct {
	mu      sync.Mutex
	written map[string]Write
	// behind tells since when a cache has been seen behind the last write of an object.
	behind map[string]time.Time
	now    func() time.Time
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

// NewObjects makes an empty memory.
func NewObjects() *Objects {
	return &Objects{written: map[string]Write{}, behind: map[string]time.Time{}, now: time.Now}
}

// Wrote notes a write.
func (v *Objects) Expect(object string, last Write) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[object] = last
	delete(v.behind, object)
}

// Behind tells whether a version from the cache is older than the last write. Objects that cannot be compared are not behind, nor is a
// cache that has been so for a minute: every write is guarded, so the worst is a conflict.
func (v *Objects) Pending(object, cached string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	last, ok := v.written[object]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(cached, last.Version)
	if err != nil || order >= 0 {
		delete(v.behind, object)
		return false
	}
	since, known := v.behind[object]
	if !known {
		since = v.now()
		v.behind[object] = since
	}
	if v.now().Sub(since) >= patience {
		v.drop(object)
		return false
	}
	last.Awaited = true
	v.written[object] = last
	return true
}

// Own returns the last write if a version is exactly the one that it made: nobody has touched the object since.
func (v *Objects) Own(object, version string) (Write, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.written[object]
	return last, last.Version == version
}

// Forget drops an object that is gone.
func (v *Objects) Forget(object string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(object)
}

func (v *Objects) drop(object string) {
	delete(v.written, object)
	delete(v.behind, object)
}

// Len is how many objects are remembered.
func (v *Objects) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.written)
}
