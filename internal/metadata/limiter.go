package metadata

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// repairShare is the part of the write rate that repairs may use beside a roll-out, so that a hand edit is undone at once even
// while thousands of Nodes wait for their turn. Nodes that have just registered share it.
const repairShare = 0.1

// slotLife is how long a granted turn stays good after its time has come; then the Machine asks again.
const slotLife = time.Minute

// pacer gives turns for writes without making a worker wait: it answers with the time until the turn, and the caller comes back.
// The zero rate paces nothing.
type pacer struct {
	mu      sync.Mutex
	rollout *rate.Limiter
	repair  *rate.Limiter
	slots   map[types.NamespacedName]time.Time
}

// newPacer makes a pacer for so many writes per second. A burst below one counts as one.
func newPacer(perSecond float64, burst int) *pacer {
	if perSecond <= 0 {
		return &pacer{}
	}
	return &pacer{
		rollout: rate.NewLimiter(rate.Limit(perSecond), max(burst, 1)),
		repair:  rate.NewLimiter(rate.Limit(max(perSecond*repairShare, 1)), max(burst/10, 1)),
		slots:   map[types.NamespacedName]time.Time{},
	}
}

// admit asks for a turn. Zero means now; otherwise the turn is kept and the caller is to ask again after that time.
func (p *pacer) admit(key types.NamespacedName, repair bool, now time.Time) time.Duration {
	if p.rollout == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if repair && p.repair.AllowN(now, 1) {
		return 0
	}
	if slot, ok := p.slots[key]; ok && now.Sub(slot) < slotLife {
		if wait := slot.Sub(now); wait > 0 {
			return wait
		}
		delete(p.slots, key)
		return 0
	}
	wait := p.rollout.ReserveN(now, 1).DelayFrom(now)
	if wait <= 0 {
		return 0
	}
	p.slots[key] = now.Add(wait)
	return wait
}

// forget drops the turn of a Machine that is gone.
func (p *pacer) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slots, key)
}
