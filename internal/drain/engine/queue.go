package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/internal/drain"
)

const (
	// unseenFor is how long an accepted eviction is held against its budget until the budget's status shows it.
	unseenFor = 5 * time.Second
	// probeEvery is how often one pod of a budget is tried although the status says no: the net below a status that is wrong.
	probeEvery = 2 * time.Minute
	// patience bounds one request; the API server may take 10 s where budgets are busy.
	patience = 15 * time.Second
)

// Queue makes pods leave, for all nodes at once. A pod is in it once, by its UID. What bounds it is the rate of requests, not the number
// of nodes, and a pod that may not go costs nothing but its place.
type Queue struct {
	// send makes the request for a task.
	send func(ctx context.Context, task drain.Task) error
	// assess says what the budgets think of a task, and whether its pod is still there, from the caches.
	assess func(ctx context.Context, task drain.Task) (verdict drain.Verdict, present bool)
	// changed is called when there is something new to say about a node's pods.
	changed func(node string)
	limiter *rate.Limiter
	metrics *Metrics
	clock   clock.WithTicker
	ready   workqueue.TypedDelayingInterface[types.UID]

	mu      sync.Mutex
	entries map[types.UID]*entry
	nodes   map[string]map[types.UID]bool
	gates   map[types.NamespacedName]*gate
	// paused is until when the API server has asked to be left alone.
	paused time.Time
}

// entry is a pod that is to leave.
type entry struct {
	task drain.Task
	// asking tells that a request is under way.
	asking bool
	// parked tells that it waits in front of the gates; called that one of them has put it into the queue, which it has to pass on when it
	// needs no place.
	parked, called bool
	gates          []types.NamespacedName
	// answer is the last one, the same for the nth time; times is 0 before the first.
	answer drain.Answer
	times  int
	// next is when it may be asked again.
	next time.Time
}

// gate is a PodDisruptionBudget as the queue knows it.
type gate struct {
	// busy tells that an eviction that counts against it is under way. There is one at a time: the API server counts each in the budget's
	// status, and where two meet there it lets one of them wait for half a second, again and again.
	busy bool
	// taken are the evictions that its status does not show yet, by UID.
	taken map[types.UID]taken
	// parked are the pods that wait for a place, in their order; barred are those to which places are no help, as they have another budget,
	// too.
	parked, barred []types.UID
	// probe is when one of them is tried anyway.
	probe time.Time
}

type taken struct {
	pod string
	at  time.Time
}

func newQueue(clk clock.WithTicker, limiter *rate.Limiter, metrics *Metrics) *Queue {
	return &Queue{
		clock: clk, limiter: limiter, metrics: metrics, changed: func(string) {},
		ready:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{Clock: clk}),
		entries: map[types.UID]*entry{}, nodes: map[string]map[types.UID]bool{}, gates: map[types.NamespacedName]*gate{},
	}
}

// run works until the context ends.
func (q *Queue) run(ctx context.Context, workers int) {
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				uid, end := q.ready.Get()
				if end {
					return
				}
				q.step(ctx, uid)
				q.ready.Done(uid)
			}
		})
	}
	<-ctx.Done()
	q.ready.ShutDown()
	group.Wait()
}

// Want says which pods are to leave a node now. Those that were to leave before and are not named are left in peace.
func (q *Queue) Want(node string, tasks []drain.Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wanted := make(map[types.UID]bool, len(tasks))
	for _, task := range tasks {
		wanted[task.UID] = true
		e := q.entries[task.UID]
		if e == nil {
			e = &entry{}
			q.entries[task.UID] = e
		} else if (e.task.Grace == nil) != (task.Grace == nil) {
			// What was asked politely is an order now.
			e.next, e.times = time.Time{}, 0
		}
		e.task = task
		// One that is parked comes back when its budget changes. Hundreds of nodes in front of one budget would else ask for all of
		// their pods each time.
		if !e.asking && (!e.parked || !task.Blocked) {
			q.ready.Add(task.UID)
		}
	}
	for uid := range q.nodes[node] {
		if e := q.entries[uid]; e != nil && !wanted[uid] {
			delete(q.entries, uid)
			q.passOn(e)
		}
	}
	if len(wanted) == 0 {
		delete(q.nodes, node)
		return
	}
	q.nodes[node] = wanted
}

// Answered returns the last answer about a pod.
func (q *Queue) Answered(uid types.UID) (drain.Answer, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[uid]
	if e == nil || e.times == 0 {
		return drain.Answer{}, false
	}
	return e.answer, true
}

// step does what can be done for one pod now.
func (q *Queue) step(ctx context.Context, uid types.UID) {
	q.mu.Lock()
	e := q.entries[uid]
	if e == nil || e.asking {
		q.mu.Unlock()
		return
	}
	task := e.task
	q.mu.Unlock()
	verdict, present := q.assess(ctx, task)
	counted, admitted := q.admit(task, verdict, present)
	if !admitted {
		return
	}
	if err := q.limiter.Wait(ctx); err != nil {
		return // the operator stops
	}
	if !q.wanted(task) {
		// The node was given back, or its lease lost, while this waited for its turn.
		q.leave(counted, task.UID, false)
		return
	}
	sending, cancel := context.WithTimeout(ctx, patience)
	err := q.send(sending, task)
	cancel()
	answer := drain.Judge(err)
	q.leave(counted, task.UID, answer.Outcome == drain.Accepted)
	if q.settle(task, answer) {
		q.changed(task.Node)
	}
}

// wanted tells whether a pod is still to leave.
func (q *Queue) wanted(task drain.Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[task.UID]
	return e != nil && e.asking
}

// admit tells whether a pod's request may be made now, and the gate that it counts against, if any. If it may not, it sees to it that the
// pod comes back in time.
func (q *Queue) admit(task drain.Task, verdict drain.Verdict, present bool) (counted *gate, admitted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, now := q.entries[task.UID], q.clock.Now()
	if e == nil || e.asking {
		return nil, false
	}
	if !present {
		q.passOn(e)
		return nil, false
	}
	if next := later(e.next, q.paused); now.Before(next) {
		q.ready.AddAfter(task.UID, next.Sub(now))
		q.passOn(e)
		return nil, false
	}
	if task.Grace == nil {
		if counted, admitted = q.pass(e, verdict, now); !admitted {
			return nil, false
		}
	}
	if counted == nil {
		q.passOn(e)
	}
	e.asking, e.parked, e.called = true, false, false
	return counted, true
}

// passOn calls the next pod in the place of one that was called and needs no place.
func (q *Queue) passOn(e *entry) {
	if !e.called {
		return
	}
	e.called = false
	for _, name := range e.gates {
		if g := q.gates[name]; g != nil {
			q.wake(g, 1)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pass asks the budgets' gates for a way through, and parks the pod in front of them when there is none.
func (q *Queue) pass(e *entry, verdict drain.Verdict, now time.Time) (counted *gate, through bool) {
	if len(verdict.Budgets) == 0 {
		return nil, true
	}
	first := q.gate(verdict.Budgets[0], now)
	open := verdict.Outcome == drain.Accepted && (!verdict.Counted || verdict.Allowed > first.unseen(now))
	if verdict.Counted && first.busy || !open && now.Before(first.probe) {
		q.park(e, verdict, now)
		again := max(first.probe.Sub(now), patience)
		if verdict.Outcome == drain.Accepted {
			again = unseenFor
		}
		q.ready.AddAfter(e.task.UID, again)
		return nil, false
	}
	if !open {
		first.probe = now.Add(probeEvery)
	}
	if !verdict.Counted {
		return nil, true
	}
	first.busy = true
	first.taken[e.task.UID] = taken{pod: e.task.Name, at: now}
	return first, true
}

// leave ends what began when a pod was let through a gate, nil for none, and lets the next one try.
func (q *Queue) leave(g *gate, uid types.UID, accepted bool) {
	if g == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	g.busy = false
	if !accepted {
		// The place that it was given is free for another.
		delete(g.taken, uid)
	}
	q.wake(g, 1)
}

func (q *Queue) gate(name types.NamespacedName, now time.Time) *gate {
	g := q.gates[name]
	if g == nil {
		g = &gate{taken: map[types.UID]taken{}, probe: now.Add(probeEvery)}
		q.gates[name] = g
	}
	return g
}

// park makes a pod wait. One that was called and finds the place taken keeps its turn.
func (q *Queue) park(e *entry, verdict drain.Verdict, now time.Time) {
	uid, called := e.task.UID, e.called
	e.parked, e.called, e.gates = true, false, verdict.Budgets
	for _, name := range verdict.Budgets {
		g := q.gate(name, now)
		list := &g.parked
		if !verdict.Counted {
			list = &g.barred
		}
		switch {
		case slices.Contains(*list, uid):
		case called:
			*list = slices.Insert(*list, 0, uid)
		default:
			*list = append(*list, uid)
		}
	}
}

// unseen counts the evictions that the budget's status does not show yet.
func (g *gate) unseen(now time.Time) int {
	for uid, t := range g.taken {
		if now.Sub(t.at) > unseenFor {
			delete(g.taken, uid)
		}
	}
	return len(g.taken)
}

// settle notes the answer to a request, and tells whether it is news.
func (q *Queue) settle(task drain.Task, answer drain.Answer) bool {
	q.metrics.evictions.WithLabelValues(codeLabel(answer.Code), requestLabel(task)).Inc()
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	e := q.entries[task.UID]
	if answer.Outcome == drain.Throttled {
		q.paused = later(q.paused, now.Add(answer.RetryIn(1)))
	}
	if e == nil {
		return false
	}
	e.asking = false
	news := e.times == 0 || e.answer.Outcome != answer.Outcome || e.answer.Message != answer.Message
	if e.answer.Outcome != answer.Outcome {
		e.times = 0
	}
	e.times++
	e.answer = answer
	e.next = now.Add(answer.RetryIn(e.times))
	q.ready.AddAfter(task.UID, e.next.Sub(now))
	return news
}

// wake lets some of the pods in front of a gate try again.
func (q *Queue) wake(g *gate, places int) {
	for places > 0 && len(g.parked) > 0 {
		if e := q.entries[g.parked[0]]; e != nil && e.parked {
			e.parked, e.called = false, true
			q.ready.Add(g.parked[0])
			places--
		}
		g.parked = g.parked[1:]
	}
}

// budgetChanged lets pods try again when the status of their budget has changed. It returns the nodes that have pods in front of it.
func (q *Queue) budgetChanged(name types.NamespacedName, allowed int, disrupted func(pod string) bool, all bool) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.gates[name]
	if g == nil {
		return nil
	}
	for uid, t := range g.taken {
		if disrupted(t.pod) {
			delete(g.taken, uid)
		}
	}
	nodes := map[string]bool{}
	for _, list := range []*[]types.UID{&g.parked, &g.barred} {
		*list = slices.DeleteFunc(*list, func(uid types.UID) bool { return q.entries[uid] == nil })
		for _, uid := range *list {
			nodes[q.entries[uid].task.Node] = true
		}
	}
	switch {
	case all:
		g.parked, g.barred = append(g.parked, g.barred...), nil
		q.wake(g, len(g.parked))
	case !g.busy && allowed > g.unseen(q.clock.Now()):
		// The others follow one by one.
		q.wake(g, 1)
	}
	names := make([]string, 0, len(nodes))
	for node := range nodes {
		names = append(names, node)
	}
	return names
}

// budgetGone drops a budget's gate; its pods try again.
func (q *Queue) budgetGone(name types.NamespacedName) []string {
	nodes := q.budgetChanged(name, 0, func(string) bool { return false }, true)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.gates, name)
	return nodes
}
