package vcenter

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25/types"
)

// limiter bounds what runs at once. The bound is halved when the vCenter is overloaded, and grows back by one with each success.
type limiter struct {
	mu      sync.Mutex
	max     int
	limit   int
	running int
	waiting []chan struct{}
}

func newLimiter(most int) *limiter { return &limiter{max: most, limit: most} }

// acquire waits for a place.
func (l *limiter) acquire(ctx context.Context) error {
	l.mu.Lock()
	if l.running < l.limit && len(l.waiting) == 0 {
		l.running++
		l.mu.Unlock()
		return nil
	}
	place := make(chan struct{})
	l.waiting = append(l.waiting, place)
	l.mu.Unlock()
	select {
	case <-place:
		return nil
	case <-ctx.Done():
		l.leave(place)
		return ctx.Err()
	}
}

// leave gives up waiting. A place that has come in the meantime goes to the next.
func (l *limiter) leave(place chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.waiting {
		if other == place {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return
		}
	}
	l.running--
	l.admit()
}

// release gives a place back, with the error of what ran in it.
func (l *limiter) release(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	switch {
	case isOverloaded(err):
		l.limit = max(1, l.limit/2)
	case err == nil && l.limit < l.max:
		l.limit++
	}
	l.admit()
}

func (l *limiter) admit() {
	for l.running < l.limit && len(l.waiting) > 0 {
		l.running++
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
}

// isOverloaded reports whether an error means that the vCenter has too much to do, or too many sessions.
func isOverloaded(err error) bool {
	if err == nil {
		return false
	}
	// The SOAP client returns an answer such as 503 as the cause of a url.Error.
	var answer *url.Error
	return rest.IsStatusError(err, http.StatusServiceUnavailable) || rest.IsStatusError(err, http.StatusTooManyRequests) ||
		fault.Is(err, &types.LimitExceeded{}) || errors.As(err, &answer) && answer.Temporary() && !answer.Timeout()
}
