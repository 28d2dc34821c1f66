package operator

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// maxRecheck bounds the back-off between two questions that the API server fails to answer.
	maxRecheck = 30 * time.Second
	// confirmDenied is for how long the API server has to deny a request before Drover concludes that the permission is missing: an API server that has
	// just started denies everything until its authorizer has read the Roles and their bindings.
	confirmDenied = 30 * time.Second
)

// backoff returns how long to wait after so many failures in a row. The first failure is 1.
func backoff(failures int) time.Duration {
	// More doublings than these exceed the maximum.
	return min(recheck<<min(failures-1, 5), maxRecheck)
}

// failures tracks a question to the API server that fails repeatedly.
type failures struct {
	count int
	// denied is when the API server began to answer nothing but 403; zero when its last answer was another one.
	denied time.Time
}

// add records a failure. It reports whether a denial is confirmed.
func (f *failures) add(err error, now time.Time) (confirmed bool) {
	f.count++
	switch {
	case !apierrors.IsForbidden(err):
		f.denied = time.Time{}
		return false
	case f.denied.IsZero():
		f.denied = now
	}
	return now.Sub(f.denied) >= confirmDenied
}

// recordFailure records that the API server failed to say whether a capability may run. A started capability goes on, with its caches. A capability
// that has not started counts as without permission once a denial is confirmed. It returns how soon to ask again.
func (s *capabilityManager) recordFailure(ctx context.Context, name string, err error, started bool) time.Duration {
	f := s.failures[name]
	if f == nil {
		f = &failures{}
		s.failures[name] = f
	}
	confirmed := f.add(err, time.Now())
	switch {
	case started || f.denied.IsZero():
		s.setProblem(ctx, name, err)
	case confirmed:
		s.set(ctx, name, stateOff, err.Error())
	default:
		s.set(ctx, name, stateOff, err.Error()+"; trying again")
	}
	if confirmed {
		return blockedInterval
	}
	return backoff(f.count)
}

// clearFailure records that the API server answers again.
func (s *capabilityManager) clearFailure(ctx context.Context, name string) {
	if s.failures[name] == nil {
		return
	}
	delete(s.failures, name)
	s.setProblem(ctx, name, nil)
}

// setProblem records why it is unknown whether a capability may run, nil for nothing. The beginning and the end are logged.
func (s *capabilityManager) setProblem(ctx context.Context, name string, err error) {
	problem := ""
	if err != nil {
		problem = err.Error() + "; trying again"
	}
	s.mu.Lock()
	current := s.states[name]
	before := current.problem
	current.problem = problem
	s.states[name] = current
	s.mu.Unlock()
	switch {
	case before == "" && err != nil:
		log.FromContext(ctx).Error(err, "cannot find out whether the capability may run; its state stays as it is; trying again", "capability", name)
	case before != "" && err == nil:
		log.FromContext(ctx).Info("the API server answers again", "capability", name)
	}
}

// lookUp calls the lookup of a capability until it succeeds or the context ends. Once a denial is confirmed, the capability starts without
// what Drover is not permitted to read.
func (s *capabilityManager) lookUp(ctx context.Context, c capability) error {
	if c.lookup == nil {
		return nil
	}
	var f failures
	for {
		err := c.lookup(ctx)
		if err == nil {
			return nil
		}
		logger := log.FromContext(ctx).WithValues("capability", c.name)
		if f.add(err, time.Now()) {
			logger.Error(err, "the API server denies a read; the capability starts without it")
			return nil
		}
		if f.count == 1 {
			logger.Error(err, "the capability cannot start yet; trying again")
		}
		s.set(ctx, c.name, stateStandby, err.Error()+"; trying again")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff(f.count)):
		}
	}
}
