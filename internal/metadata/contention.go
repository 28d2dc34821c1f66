package metadata

import (
	"sync"
	"time"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// A key that has to be repaired contentionThreshold times, each time within contentionWindow of the time before, is contended: another writer keeps
// changing it, be it only every few minutes; the manual edits of a day are further apart. Drover then leaves the key alone for contentionPause, which
// doubles with each further round up to maxContentionPause. The contention is over when the key needed no repair for twice its pause and
// contentionWindow.
const (
	contentionThreshold = 5
	contentionWindow    = 10 * time.Minute
	contentionPause     = 30 * time.Second
	maxContentionPause  = 10 * time.Minute
)

// entry is a key of an object.
type entry struct {
	target plan.Target
	object string
	kind   ownership.Kind
	key    string
}

type repairs struct {
	count int
	last  time.Time
	pause time.Duration
	until time.Time
}

// contention counts repairs by object and key, to distinguish another writer from a manual edit. After a restart the count begins
// again, which costs a few repairs.
type contention struct {
	mu      sync.Mutex
	repairs map[entry]*repairs
}

func newContention() *contention { return &contention{repairs: map[entry]*repairs{}} }

// repaired counts a repair. It reports whether it begins a pause, once for each.
func (c *contention) repaired(key entry, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := c.repairs[key]
	if current == nil || now.Sub(current.last) > contentionWindow+2*current.pause {
		current = &repairs{}
		c.repairs[key] = current
	}
	current.count++
	current.last = now
	if current.count < contentionThreshold && current.pause == 0 {
		return false
	}
	current.pause = min(max(current.pause*2, contentionPause), maxContentionPause)
	current.until = now.Add(current.pause)
	return true
}

// until returns the end of the pause of a key; the zero time when it has none.
func (c *contention) until(key entry, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if current := c.repairs[key]; current != nil && now.Before(current.until) {
		return current.until
	}
	return time.Time{}
}

// any reports whether there are counts at all; usually there are none, and no key has to be looked up.
func (c *contention) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.repairs) > 0
}

// forget removes the counts of an object that is gone.
func (c *contention) forget(target plan.Target, object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.repairs {
		if key.target == target && key.object == object {
			delete(c.repairs, key)
		}
	}
}
