package metadata

import (
	"sync"
	"time"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// A key that has to be repaired fightThreshold times, each time within fightWindow of the time before, has another writer, be it one that
// comes by every few minutes; the hand edits of a day are further apart. The key is then left alone for fightPause, which doubles with each
// further round up to maxFightPause. One that needed no repair for twice its pause and fightWindow is at peace again.
const (
	fightThreshold = 5
	fightWindow    = 10 * time.Minute
	fightPause     = 30 * time.Second
	maxFightPause  = 10 * time.Minute
)

type fightKey struct {
	target plan.Target
	object string
	kind   ownership.Kind
	key    string
}

type fight struct {
	repairs int
	last    time.Time
	pause   time.Duration
	until   time.Time
}

// fights counts repairs per object and key, to tell another writer from a hand edit. It lives in memory: after a restart the count
// begins again, which costs a few repairs and no more.
type fights struct {
	mu   sync.Mutex
	keys map[fightKey]*fight
}

func newFights() *fights { return &fights{keys: map[fightKey]*fight{}} }

// repaired notes that a key was repaired. It tells whether this repair made it a fight, so that it is reported once per round.
func (f *fights) repaired(key fightKey, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.keys[key]
	if current == nil || now.Sub(current.last) > fightWindow+2*current.pause {
		current = &fight{}
		f.keys[key] = current
	}
	current.repairs++
	current.last = now
	if current.repairs < fightThreshold && current.pause == 0 {
		return false
	}
	current.pause = min(max(current.pause*2, fightPause), maxFightPause)
	current.until = now.Add(current.pause)
	return true
}

// withheld tells until when a key is left alone; the zero time if it is not.
func (f *fights) withheld(key fightKey, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if current := f.keys[key]; current != nil && now.Before(current.until) {
		return current.until
	}
	return time.Time{}
}

// any tells whether there are counts at all; mostly there are none, and then nothing needs to be asked per key.
func (f *fights) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.keys) > 0
}

// forget drops the counts of an object that is gone.
func (f *fights) forget(target plan.Target, object string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.keys {
		if key.target == target && key.object == object {
			delete(f.keys, key)
		}
	}
}
