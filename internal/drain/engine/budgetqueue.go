package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/drain"
)

// budget is the state of a PodDisruptionBudget in the queue.
type budget struct {
	// evicting reports whether an eviction that counts against the budget is in progress. There is one at a time: the API server counts each in the
	// status of the budget, and of two that conflict there one waits for half a second, repeatedly.
	evicting bool
	// unobserved are the evictions that the status does not show yet, by the UID of the pod.
	unobserved map[types.UID]eviction
	// waiting are the pods that wait for a disruption, in their order. blocked are the pods that cannot leave when one is allowed, because they have
	// another budget, too.
	waiting, blocked []types.UID
	// probe is when one of them is evicted although the status does not allow it.
	probe time.Time
}

type eviction struct {
	pod string
	at  time.Time
}

// reserveOrPark reserves a disruption of the pod's budget, or has the pod wait for its budgets when there is none.
func (q *Queue) reserveOrPark(e *entry, verdict drain.Verdict, now time.Time) (counted *budget, admitted bool) {
	if len(verdict.Budgets) == 0 {
		return nil, true
	}
	first := q.budget(verdict.Budgets[0], now)
	allowed := verdict.Outcome == drain.Accepted && (!verdict.Counted || verdict.Allowed > first.countUnobserved(now))
	if verdict.Counted && first.evicting || !allowed && now.Before(first.probe) {
		q.wait(e, verdict, now)
		delay := max(first.probe.Sub(now), requestTimeout)
		if verdict.Outcome == drain.Accepted {
			delay = unobservedTimeout
		}
		q.ready.AddAfter(e.task.UID, delay)
		return nil, false
	}
	if !allowed {
		first.probe = now.Add(probeInterval)
	}
	if !verdict.Counted {
		return nil, true
	}
	first.evicting = true
	first.unobserved[e.task.UID] = eviction{pod: e.task.Name, at: now}
	return first, true
}

// wait has a pod wait for its budgets. A pod that was offered a disruption which is not available any more stays the first.
func (q *Queue) wait(e *entry, verdict drain.Verdict, now time.Time) {
	uid, offered := e.task.UID, e.offered
	e.waiting, e.offered, e.budgets = true, false, verdict.Budgets
	for _, name := range verdict.Budgets {
		b := q.budget(name, now)
		list := &b.waiting
		if !verdict.Counted {
			list = &b.blocked
		}
		switch {
		case slices.Contains(*list, uid):
		case offered:
			*list = slices.Insert(*list, 0, uid)
		default:
			*list = append(*list, uid)
		}
	}
}

// finish ends a request that counts against a budget, nil for none, and offers the next disruption.
func (q *Queue) finish(b *budget, uid types.UID, accepted bool) {
	if b == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	b.evicting = false
	if !accepted {
		// The disruption that was reserved is available for another pod.
		delete(b.unobserved, uid)
	}
	q.offer(b, 1)
}

func (q *Queue) budget(name types.NamespacedName, now time.Time) *budget {
	b := q.budgets[name]
	if b == nil {
		b = &budget{unobserved: map[types.UID]eviction{}, probe: now.Add(probeInterval)}
		q.budgets[name] = b
	}
	return b
}

// countUnobserved returns the number of evictions that the status of the budget does not show yet.
func (b *budget) countUnobserved(now time.Time) int {
	for uid, eviction := range b.unobserved {
		if now.Sub(eviction.at) > unobservedTimeout {
			delete(b.unobserved, uid)
		}
	}
	return len(b.unobserved)
}

// offer queues as many of the pods that wait for a budget as it has disruptions.
func (q *Queue) offer(b *budget, disruptions int) {
	for disruptions > 0 && len(b.waiting) > 0 {
		if e := q.entries[b.waiting[0]]; e != nil && e.waiting {
			e.waiting, e.offered = false, true
			q.ready.Add(b.waiting[0])
			disruptions--
		}
		b.waiting = b.waiting[1:]
	}
}

// offerNext offers a disruption to the next pod if this pod does not need the disruption that it was offered.
func (q *Queue) offerNext(e *entry) {
	if !e.offered {
		return
	}
	e.offered = false
	for _, name := range e.budgets {
		if b := q.budgets[name]; b != nil {
			q.offer(b, 1)
		}
	}
}

// budgetChanged queues pods after a change of their budget: the next one if it allows a disruption, or all. It returns the nodes with pods that wait
// for the budget.
func (q *Queue) budgetChanged(name types.NamespacedName, allowed int, disrupted func(pod string) bool, all bool) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.budgets[name]
	if b == nil {
		return nil
	}
	for uid, eviction := range b.unobserved {
		if disrupted(eviction.pod) {
			delete(b.unobserved, uid)
		}
	}
	nodes := map[string]bool{}
	for _, list := range []*[]types.UID{&b.waiting, &b.blocked} {
		*list = slices.DeleteFunc(*list, func(uid types.UID) bool { return q.entries[uid] == nil })
		for _, uid := range *list {
			nodes[q.entries[uid].task.Node] = true
		}
	}
	switch {
	case all:
		b.waiting, b.blocked = append(b.waiting, b.blocked...), nil
		q.offer(b, len(b.waiting))
	case !b.evicting && allowed > b.countUnobserved(q.clock.Now()):
		// The others follow one by one.
		q.offer(b, 1)
	}
	names := make([]string, 0, len(nodes))
	for node := range nodes {
		names = append(names, node)
	}
	return names
}

// budgetGone forgets a budget and queues all of its pods.
func (q *Queue) budgetGone(name types.NamespacedName) []string {
	nodes := q.budgetChanged(name, 0, func(string) bool { return false }, true)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.budgets, name)
	return nodes
}
