// Package pace decides when a Node may be written: a Limiter bounds the rate of all writes, and a Contention leaves keys alone that another writer
// keeps changing. Everything that writes metadata of Nodes shares them.
package pace

import (
	"sync"
	"time"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// The rule of a Contention. A key that has to be repaired ContentionThreshold times, each time within contentionWindow of the time before, is
// contended: another writer keeps changing it, be it only every few minutes; the manual edits of a day are further apart. Drover then leaves the key
// alone for ContentionPause, which doubles with each further round up to maxContentionPause. The contention is over when the key needed no repair for
// twice its pause and contentionWindow.
const (
	// ContentionThreshold is how many repairs begin a pause.
	ContentionThreshold = 5
	contentionWindow    = 10 * time.Minute
	// ContentionPause is the first pause of a key.
	ContentionPause    = 30 * time.Second
	maxContentionPause = 10 * time.Minute
)

// Key is a key of an object.
type Key struct {
	// Target is the object's kind, and Object its name.
	Target plan.Target
	Object string
	// Kind and Key identify the entry.
	Kind ownership.Kind
	Key  string
}

type repairs struct {
	count int
	last  time.Time
	pause time.Duration
	until time.Time
}

// Contention counts repairs by object and key, to distinguish another writer from a manual edit. After a restart the count begins
// again, which costs a few repairs.
type Contention struct {
	mu      sync.Mutex
	repairs map[Key]*repairs
}

// NewContention returns an empty Contention.
func NewContention() *Contention { return &Contention{repairs: map[Key]*repairs{}} }

// Repaired counts a repair. It reports whether it begins a pause, once for each.
func (c *Contention) Repaired(key Key, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := c.repairs[key]
	if current == nil || now.Sub(current.last) > contentionWindow+2*current.pause {
		current = &repairs{}
		c.repairs[key] = current
	}
	current.count++
	current.last = now
	if current.count < ContentionThreshold && current.pause == 0 {
		return false
	}
	current.pause = min(max(current.pause*2, ContentionPause), maxContentionPause)
	current.until = now.Add(current.pause)
	return true
}

// Until returns the end of the pause of a key; the zero time when it has none.
func (c *Contention) Until(key Key, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if current := c.repairs[key]; current != nil && now.Before(current.until) {
		return current.until
	}
	return time.Time{}
}

// Over returns when the contention of a key is over, if the key needs no repair until then; the zero time when it has none.
func (c *Contention) Over(key Key, now time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	current := c.repairs[key]
	if current == nil || current.pause == 0 {
		return time.Time{}
	}
	if over := current.last.Add(contentionWindow + 2*current.pause); now.Before(over) {
		return over
	}
	return time.Time{}
}

// Any reports whether there are counts at all; usually there are none, and no key has to be looked up.
func (c *Contention) Any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.repairs) > 0
}

// Forget removes the counts of an object that is gone.
func (c *Contention) Forget(target plan.Target, object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.repairs {
		if key.Target == target && key.Object == object {
			delete(c.repairs, key)
		}
	}
}
