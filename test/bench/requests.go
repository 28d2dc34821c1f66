package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// requests are what a user asked of the API server, in the order of the answers.
type requests []cluster.AuditEvent

// requestsSince reads the requests of a user since a mark in the audit log, which has the API server's own times and costs nothing while Drover runs.
// It leaves out the lease of the leader, and the reviews of those who read metrics.
func (s *stage) requestsSince(ctx context.Context, mark cluster.AuditMark, user string) (all requests, err error) {
	if _, err := s.cluster.Audit().Sync(ctx); err != nil {
		return nil, err
	}
	return all, s.cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		leads := e.Resource == "leases" && e.Namespace == harness.SystemNamespace
		if e.User == user && !leads && !strings.HasSuffix(e.Resource, "reviews") {
			all = append(all, *e)
		}
		return nil
	})
}

// kindOf names a request by verb, resource and subresource.
func kindOf(e *cluster.AuditEvent) string {
	if e.Subresource != "" {
		return e.Verb + " " + e.Resource + "/" + e.Subresource
	}
	return e.Verb + " " + e.Resource
}

func (r requests) where(condition func(*cluster.AuditEvent) bool) (some requests) {
	for i := range r {
		if condition(&r[i]) {
			some = append(some, r[i])
		}
	}
	return some
}

// writes returns the requests that write, refused ones included.
func (r requests) writes() requests { return r.where((*cluster.AuditEvent).Write) }

// of returns the requests of a kind.
func (r requests) of(kind string) requests {
	return r.where(func(e *cluster.AuditEvent) bool { return kindOf(e) == kind })
}

// succeeded returns the requests that the API server did not refuse.
func (r requests) succeeded() requests {
	return r.where(func(e *cluster.AuditEvent) bool { return e.Code < 300 })
}

// refused returns the requests that the API server refused.
func (r requests) refused() requests {
	return r.where(func(e *cluster.AuditEvent) bool { return e.Code >= 400 })
}

// before returns the requests that were answered before a time.
func (r requests) before(at time.Time) requests {
	return r.where(func(e *cluster.AuditEvent) bool { return e.Answered.Before(at) })
}

// seconds returns when each request was answered, in seconds after a time.
func (r requests) seconds(after time.Time) []float64 {
	all := make([]float64, len(r))
	for i := range r {
		all[i] = r[i].Answered.Sub(after).Seconds()
	}
	return all
}

// first returns when the first request was answered, and last when the last one was; the zero time for none.
func (r requests) first() (at time.Time) {
	if len(r) > 0 {
		at = r[0].Answered
	}
	return at
}

func (r requests) last() (at time.Time) {
	if len(r) > 0 {
		at = r[len(r)-1].Answered
	}
	return at
}

// perSecond returns how many requests there were in each second.
func (r requests) perSecond() float64 {
	if len(r) < 2 {
		return 0
	}
	return float64(len(r)-1) / r.last().Sub(r.first()).Seconds()
}

// kinds returns how many requests of each kind there were per object. Refused requests have kinds of their own.
func (r requests) kinds(objects int) map[string]float64 {
	kinds := map[string]float64{}
	for i := range r {
		kind := kindOf(&r[i])
		if r[i].Code >= 400 {
			kind += fmt.Sprintf(" (%d)", r[i].Code)
		}
		kinds[kind] += 1 / float64(objects)
	}
	return kinds
}

// addKinds adds the requests of each kind per object, without rare kinds.
func (c column) addKinds(r requests, objects int) {
	kinds := r.kinds(objects)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[kind] >= 0.02 {
			c.add(kind, kinds[kind], ratio)
		}
	}
}
