package pace

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// repairShare is the part of the write rate that repairs may use in addition to a rollout, so that a manual edit is undone at once even while
// thousands of Nodes wait. Nodes that have just registered share it.
const repairShare = 0.1

// reservationLife is how long a reservation stays valid after its time has come; then the Machine reserves again.
const reservationLife = time.Minute

// Limiter limits the rate of writes without blocking a worker: it returns the time until the write, and the caller comes back. Without a rate it
// limits nothing.
type Limiter struct {
	mu              sync.Mutex
	rollout, repair *queue
}

// queue hands out turns at a rate.
type queue struct {
	limiter *rate.Limiter
	turns   map[types.NamespacedName]time.Time
}

func newQueue(perSecond float64, burst int) *queue {
	return &queue{limiter: rate.NewLimiter(rate.Limit(perSecond), max(burst, 1)), turns: map[types.NamespacedName]time.Time{}}
}

// NewLimiter returns a limiter. A burst less than one counts as one.
func NewLimiter(perSecond float64, burst int) *Limiter {
	if perSecond <= 0 {
		return &Limiter{}
	}
	return &Limiter{rollout: newQueue(perSecond, burst), repair: newQueue(max(perSecond*repairShare, 1), burst/10)}
}

// Reserve returns how long a Machine has to wait for its write; zero is now. A Machine that waits keeps its reservation. A repair waits for its turn
// among the repairs, or in the roll-out if that has one for it and it comes first.
func (l *Limiter) Reserve(key types.NamespacedName, repair bool, now time.Time) time.Duration {
	if l.rollout == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !repair {
		return l.rollout.reserve(key, now)
	}
	wait := l.repair.reserve(key, now)
	if turn, found := l.rollout.turns[key]; found && turn.Sub(now) < wait {
		return l.rollout.reserve(key, now)
	}
	return wait
}

// reserve returns how long a Machine has to wait for its turn, which it takes when it has come.
func (q *queue) reserve(key types.NamespacedName, now time.Time) time.Duration {
	turn, found := q.turns[key]
	if !found || now.Sub(turn) >= reservationLife {
		turn = now.Add(q.limiter.ReserveN(now, 1).DelayFrom(now))
	}
	wait := turn.Sub(now)
	if wait <= 0 {
		delete(q.turns, key)
		return 0
	}
	q.turns[key] = turn
	return wait
}

// Forget removes the reservations of a Machine that is gone.
func (l *Limiter) Forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rollout != nil {
		delete(l.rollout.turns, key)
		delete(l.repair.turns, key)
	}
}
