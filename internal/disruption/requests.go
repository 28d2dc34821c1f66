package disruption

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/drover-io/drover/internal/disruption/plan"
)

// requestsAge is how long a list of remediation requests is good enough for what is reported, and how long an error is one for every decision. Before
// anything is allowed they are listed again.
const requestsAge = 10 * time.Second

// requests are the remediation requests as they were listed last, by namespace: no watch follows their kinds, which the configuration names. What
// keeps them from being listed in one namespace concerns the groups with Machines of that namespace.
type requests struct {
	mu         sync.Mutex
	namespaces map[string]*requestList
}

// requestList has the remediation requests of a namespace.
type requestList struct {
	// asked is when they were last asked for. The mutex of requests guards it.
	asked time.Time

	mu    sync.Mutex
	found []plan.Requested
	at    time.Time
	// err is what came of the last attempt, and failed is when that was: while an API server does not answer, not everybody who decides waits for it.
	err    error
	failed time.Time
}

// of returns the list of a namespace, and drops the lists that no request has needed lately.
func (r *requests) of(namespace string, now time.Time) *requestList {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.namespaces[namespace]
	if list == nil {
		maps.DeleteFunc(r.namespaces, func(_ string, l *requestList) bool { return now.Sub(l.asked) > time.Hour })
		if r.namespaces == nil {
			r.namespaces = map[string]*requestList{}
		}
		list = &requestList{}
		r.namespaces[namespace] = list
	}
	list.asked = now
	return list
}

// list lists the remediation requests of a namespace unless that has been done since a time. An API server that does not answer for one of their
// kinds keeps those who decide waiting for a bounded time.
func (b *Budgets) list(ctx context.Context, namespace string, since time.Time) ([]plan.Requested, error) {
	r := b.requests.of(namespace, b.Clock.Now())
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
	found, err := b.Requests(bounded, namespace)
	if err != nil {
		err = fmt.Errorf("listing the requests for remediation in namespace %s: %w", namespace, err)
		if ctx.Err() == nil {
			r.err, r.failed = err, b.Clock.Now()
		}
		return nil, err
	}
	r.found, r.at, r.err = found, now, nil
	return found, nil
}

// requestsOf returns the remediation requests of a group with Machines in some namespaces, as they were listed since a time. A Machine is of the
// group of its Node, whatever its MachineSet.
func (b *Budgets) requestsOf(ctx context.Context, in *plan.Input, namespaces []string, since time.Time) (of []plan.Requested, err error) {
	if b.Requests == nil {
		return nil, nil
	}
	var all []plan.Requested
	for _, namespace := range namespaces {
		found, err := b.list(ctx, namespace, since)
		if err != nil {
			return nil, err
		}
		all = slices.Concat(all, found)
	}
	for _, requested := range all {
		if in.Members.Has(requested.Node, requested.NodeUID) {
			of = append(of, requested)
			continue
		}
		group, err := b.Membership.GroupOf(ctx, cmp.Or(requested.Node, plan.MachineName(requested.Machine)))
		if err != nil {
			return nil, fmt.Errorf("finding the NodeGroup of Machine %s: %w", requested.Machine, err)
		}
		if group == in.Group.Name {
			requested.Node, requested.NodeUID = "", ""
			of = append(of, requested)
		}
	}
	return of, nil
}
