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
	mu           sync.Mutex
	rollout      *rate.Limiter
	repair       *rate.Limiter
	reservations map[types.NamespacedName]time.Time
}

// NewLimiter returns a limiter. A burst less than one counts as one.
func NewLimiter(perSecond float64, burst int) *Limiter {
	if perSecond <= 0 {
		return &Limiter{}
	}
	return &Limiter{
		rollout:      rate.NewLimiter(rate.Limit(perSecond), max(burst, 1)),
		repair:       rate.NewLimiter(rate.Limit(max(perSecond*repairShare, 1)), max(burst/10, 1)),
		reservations: map[types.NamespacedName]time.Time{},
	}
}

// Reserve returns how long a Machine has to wait for its write; zero is now. A Machine that waits keeps its reservation.
func (l *Limiter) Reserve(key types.NamespacedName, repair bool, now time.Time) time.Duration {
	if l.rollout == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if repair && l.repair.AllowN(now, 1) {
		return 0
	}
	if reserved, ok := l.reservations[key]; ok && now.Sub(reserved) < reservationLife {
		if wait := reserved.Sub(now); wait > 0 {
			return wait
		}
		delete(l.reservations, key)
		return 0
	}
	wait := l.rollout.ReserveN(now, 1).DelayFrom(now)
	if wait <= 0 {
		return 0
	}
	l.reservations[key] = now.Add(wait)
	return wait
}

// Forget removes the reservation of a Machine that is gone.
func (l *Limiter) Forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reservations, key)
}
