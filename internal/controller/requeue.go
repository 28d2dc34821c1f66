package controller

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller/delay"
)

const (
	// CatchUp is delay.CatchUp.
	CatchUp = delay.CatchUp
	// RetryDenied is delay.Denied.
	RetryDenied = delay.Denied
	// RetryConflict is delay.Conflict; it doubles up to maxRetryConflict, because a cache may lag.
	RetryConflict, maxRetryConflict = delay.Conflict, 5 * time.Second
	// FirstRetryDenied is the first delay after the API server denied the write of one of many objects; it doubles up to maxRetryDenied. A right or an
	// admission policy that is being installed denies writes for some seconds, and what denies one of them for longer usually denies all.
	FirstRetryDenied, maxRetryDenied = 5 * time.Second, 5 * time.Minute
)

// Requeue is delay.Requeue.
type Requeue = delay.Requeue

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

// MinInterval is the shortest time between two reconciliations of an object that many other objects wake. An object that takes long to reconcile
// waits longer, up to MaxInterval, so that at most a twentieth of the time goes to it.
const (
	MinInterval = time.Second
	MaxInterval = 5 * time.Second
)

// IntervalAfter returns how long after the beginning of a reconciliation the next one begins.
func IntervalAfter(took time.Duration) time.Duration {
	return min(max(MinInterval, 20*took), MaxInterval)
}
