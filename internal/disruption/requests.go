package disruption

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/disruption/plan"
)

// requestsAge is how long a list of remediation requests is good enough for what is reported. Before anything is allowed they are listed again.
const requestsAge = 10 * time.Second

// requests are the remediation requests of the cluster, as they were listed last: no watch follows their kinds, which the configuration names.
type requests struct {
	mu    sync.Mutex
	found []plan.Requested
	at    time.Time
}

// list lists the remediation requests unless that has been done since a time. An API server that does not answer for one of their kinds keeps those
// who decide waiting for a bounded time.
func (r *requests) list(ctx context.Context, b *Budgets, since time.Time) ([]plan.Requested, error) {
	if b.Requests == nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := b.Clock.Now(); r.at.Before(since) || r.at.After(now) {
		bounded, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		found, err := b.Requests(bounded)
		if err != nil {
			return nil, fmt.Errorf("listing the requests for remediation: %w", err)
		}
		r.found, r.at = found, now
	}
	return r.found, nil
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
