package disruption

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/disruption/plan"
)

// requestsAge is how long a list of remediation requests is good enough for what is reported, and how long an error is one for every decision. Before
// anything is allowed they are listed again.
const requestsAge = 10 * time.Second

// requests are the remediation requests of the cluster, as they were listed last: no watch follows their kinds, which the configuration names.
type requests struct {
	mu    sync.Mutex
	found []plan.Requested
	at    time.Time
	// err is what came of the last attempt, and failed is when that was: while an API server does not answer, not everybody who decides waits for it.
	err    error
	failed time.Time
}

// list lists the remediation requests unless that has been done since a time. An API server that does not answer for one of their kinds keeps those
// who decide waiting for a bounded time.
func (r *requests) list(ctx context.Context, b *Budgets, since time.Time) ([]plan.Requested, error) {
	if b.Requests == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := b.Clock.Now()
	if !r.at.Before(since) && !r.at.After(now) {
		return r.found, nil
	}
	if since := now.Sub(r.failed); r.err != nil && since >= 0 && since < requestsAge {
		return nil, r.err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := b.Requests(bounded)
	if err != nil {
		err = fmt.Errorf("listing the requests for remediation: %w", err)
		if ctx.Err() == nil {
			r.err, r.failed = err, b.Clock.Now()
		}
		return nil, err
	}
	r.found, r.at, r.err = found, now, nil
	return found, nil
}

// requestsOf returns the remediation requests of a group.
func (b *Budgets) requestsOf(ctx context.Context, in *plan.Input) (of []plan.Requested, err error) {
	all, err := b.requests.list(ctx, b, in.Now.Add(-requestsAge))
	if err != nil {
		return nil, err
	}
	for _, requested := range all {
		if in.Members.Has(requested.Node, requested.NodeUID) {
			of = append(of, requested)
			continue
		}
		requested.Node, requested.NodeUID = "", ""
		group, err := b.Membership.GroupOf(ctx, plan.MachineName(requested.Machine))
		if err != nil {
			return nil, fmt.Errorf("finding the NodeGroup of Machine %s: %w", requested.Machine, err)
		}
		if group == in.Group.Name {
			of = append(of, requested)
		}
	}
	return of, nil
}
