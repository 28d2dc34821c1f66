package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// The delays after which something is tried again without an event. The same cause waits equally long in every controller.
const (
	// CatchUp is how soon an object is reconciled again while the cache does not show Drover's own last write of it. The event usually comes first.
	CatchUp = time.Second
	// RetryDenied is how soon a request is tried again that the API server denied, or that only a user can correct.
	RetryDenied = time.Minute
	// RetryConflict is the first delay after the guard of a patch failed; it doubles up to maxRetryConflict, because a cache may lag.
	RetryConflict, maxRetryConflict = 100 * time.Millisecond, 5 * time.Second
	// FirstRetryDenied is the first delay after the API server denied the write of one of many objects; it doubles up to maxRetryDenied. A right or an
	// admission policy that is being installed denies writes for some seconds, and what denies one of them for longer usually denies all.
	FirstRetryDenied, maxRetryDenied = 5 * time.Second, 5 * time.Minute
	// RetryQuorum is how soon the control plane is asked again that cannot spare a node: much of what changes that has no event.
	RetryQuorum = 5 * time.Second
	// RetryLease is how soon a node lease is asked for again at the latest that another holder has: it may expire without an event.
	RetryLease = 30 * time.Second
	// RetryBudget is how soon a disruption is asked for again at the latest that waits for its NodeGroup.
	RetryBudget = 30 * time.Second
)

// UntilLease returns how soon a node lease is asked for again that another holder has until a time.
func UntilLease(until, now time.Time) time.Duration {
	return min(max(until.Sub(now), CatchUp), RetryLease)
}

// Requeue is when an object is reconciled again without an event. The zero value is never.
type Requeue struct{ after time.Duration }

// In asks for a reconciliation after a delay; the shortest delay counts. A delay that is over counts as one millisecond.
func (r *Requeue) In(delay time.Duration) {
	delay = max(delay, time.Millisecond)
	if r.after == 0 || delay < r.after {
		r.after = delay
	}
}

// Delay returns the shortest delay that was asked for; zero is never.
func (r *Requeue) Delay() time.Duration { return r.after }

// Merge asks for what another one asks for, too.
func (r *Requeue) Merge(other Requeue) {
	if other.after > 0 {
		r.In(other.after)
	}
}

// Conflicts counts the guards that failed one after another, and the writes that the API server denied, by object, and delays the next attempt
// accordingly. It is safe for concurrent use.
type Conflicts struct {
	limiter, denied workqueue.TypedRateLimiter[types.NamespacedName]
}

// NewConflicts returns an empty count.
func NewConflicts() *Conflicts {
	return &Conflicts{
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](RetryConflict, maxRetryConflict),
		denied:  workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](FirstRetryDenied, maxRetryDenied),
	}
}

// Next counts one more conflict of an object and returns the delay of the next attempt.
func (c *Conflicts) Next(key types.NamespacedName) time.Duration { return c.limiter.When(key) }

// Denied counts one more denied write of an object and returns the delay of the next attempt.
func (c *Conflicts) Denied(key types.NamespacedName) time.Duration { return c.denied.When(key) }

// Forget ends the counts of an object.
func (c *Conflicts) Forget(key types.NamespacedName) {
	c.limiter.Forget(key)
	c.denied.Forget(key)
}

// Result returns what Reconcile returns for an object after a request, or several, that may have failed: see Failed and Outcome.Result.
func (c *Conflicts) Result(key types.NamespacedName, requeue Requeue, err error) (reconcile.Result, error) {
	out := Failed(err)
	out.Requeue = requeue
	return out.Result(key, c)
}

// MinInterval is the least time between two reconciliations of an object because of others, of which it has many. One that takes long to reconcile
// waits longer, so that at most a twentieth of the time goes to it, up to MaxInterval.
const (
	MinInterval = time.Second
	MaxInterval = 5 * time.Second
)

// IntervalAfter returns how long after the beginning of a reconciliation the next one begins.
func IntervalAfter(took time.Duration) time.Duration {
	return min(max(MinInterval, 20*took), MaxInterval)
}
