package machineset

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// memory is what is remembered of a MachineSet between passes. A process that starts anew is slower without it, and no less right.
type memory struct {
	uid types.UID
	// unverified reports that a request got no answer: nobody knows whether it was carried out until the cache agrees with the API server.
	unverified bool
	// creating and deleting are the failures that are not over.
	creating, deleting setback
	// refused are the Machines that could not be adopted or released, until when, and why.
	refused map[types.UID]refusal
	// unsure are names of Machines whose creation got no answer: they may be there. The next creation takes them up.
	unsure []string
	// attempt is the attempt of the replacement that is to be created next; zero for none.
	attempt int
}

type refusal struct {
	until   time.Time
	message string
}

// remember returns what is known of a MachineSet. Only the worker that has its key in hand uses it.
func (r *Reconciler) remember(key types.NamespacedName, uid types.UID) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.known[key]
	if m != nil && m.uid != uid {
		r.drop(m)
		m = nil
	}
	if m == nil {
		m = &memory{uid: uid, refused: map[types.UID]refusal{}}
		r.known[key] = m
	}
	return m
}

// forget drops what is known of a MachineSet that is gone. Its Machines are the garbage collector's.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.known[key]; m != nil {
		r.drop(m)
		delete(r.known, key)
	}
	r.metrics.forget(key)
	r.stale.Forget(key)
}

func (r *Reconciler) drop(m *memory) {
	r.versions.Forget(string(m.uid))
	r.owned.Forget(string(m.uid))
}

// refusals are the Machines whose owner the API server does not let be changed, those that may be tried again left out.
func (m *memory) refusals(now time.Time) map[types.UID]bool {
	maps.DeleteFunc(m.refused, func(_ types.UID, r refusal) bool { return !r.until.After(now) })
	out := make(map[types.UID]bool, len(m.refused))
	for uid := range m.refused {
		out[uid] = true
	}
	return out
}

// Back-off of creations and deletions that fail. What was refused needs somebody to change something as a rule.
const (
	minSetback, minRefusal, maxSetback = 100 * time.Millisecond, time.Second, time.Minute
	// patience is how often in a row a request may fail of which nobody knows why before the MachineSet tells of it: an API server
	// that restarts is no news.
	patience = 3
)

// setback is a kind of request that fails.
type setback struct {
	times      int
	until      time.Time
	generation int64
	failure    plan.Failure
	refused    bool
}

// failed notes a failure and sets when it may be tried again.
func (s *setback) failed(class status.Class, failure plan.Failure, generation int64, now time.Time) {
	s.times++
	s.generation, s.failure, s.refused = generation, failure, class == status.Denied
	wait := minSetback
	if s.refused {
		wait = minRefusal
	}
	for range s.times - 1 {
		if wait *= 2; wait >= maxSetback {
			wait = maxSetback
			break
		}
	}
	s.until = now.Add(wait)
}

// holds tells for how long nothing is to be tried. A MachineSet that was changed is tried at once: it may have been put right.
func (s *setback) holds(generation int64, now time.Time) time.Duration {
	if s.times == 0 || s.generation != generation {
		return 0
	}
	return max(s.until.Sub(now), 0)
}

// told is the failure as the status tells it; nil when there is none to be told.
func (s *setback) told() *plan.Failure {
	if s.times == 0 || !s.refused && s.times < patience {
		return nil
	}
	return &s.failure
}
