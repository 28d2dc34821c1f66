package engine

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/internal/drain"
)

const (
	// unobservedTimeout is how long an accepted eviction counts against its budget while the budget's status does not show it.
	unobservedTimeout = 5 * time.Second
	// probeInterval is how often one pod of a budget is evicted although the status in the cache does not allow it: the status may be wrong.
	probeInterval = 2 * time.Minute
	// requestTimeout bounds one request. The API server waits up to 30 s for an admission webhook, and up to 10 s for the status of a budget.
	requestTimeout = 35 * time.Second
	// stopTimeout bounds a request that is in progress when the operator stops, within the grace period of its manager.
	stopTimeout = 5 * time.Second
)

// Queue evicts and deletes pods of all nodes. A pod is in it once, by its UID. It is bounded by the rate of requests, not by the number of nodes, and
// makes no requests for a pod that its budget does not allow to leave.
type Queue struct {
	// send makes the request for a task.
	send func(ctx context.Context, task drain.Task) error
	// assess returns the verdict of the budgets on a task, and whether its pod still exists, from the caches.
	assess func(ctx context.Context, task drain.Task) (verdict drain.Verdict, present bool)
	// changed is called when the answer for a pod of a node has changed.
	changed func(node string)
	limiter *rate.Limiter
	metrics *Metrics
	clock   clock.WithTicker
	lanes   *lanes
	ready   workqueue.TypedDelayingInterface[types.UID]

	mu      sync.Mutex
	entries map[types.UID]*entry
	nodes   map[string]map[types.UID]bool
	budgets map[types.NamespacedName]*budget
	// throttledUntil is the end of the delay that the API server has requested for all requests.
	throttledUntil time.Time
}

// entry is a pod that has to leave.
type entry struct {
	task drain.Task
	// requesting reports whether a request is in progress.
	requesting bool
	// waiting reports whether the pod waits for its budgets; offered whether a budget has queued it for a disruption that has become available, which
	// it has to pass on if it does not need it.
	waiting, offered bool
	budgets          []types.NamespacedName
	// parked reports whether it waits for one of its lanes; turn is the lane that has queued it, which it has to pass on if it does not enter.
	parked bool
	turn   string
	// answer is the last answer, and times how often it was the same; 0 before the first.
	answer drain.Answer
	times  int
	// next is the earliest time of the next request.
	next time.Time
}

// newQueue returns a queue with as many requests in progress as there are workers, not counting requests that are not answered soon.
func newQueue(clk clock.WithTicker, limiter *rate.Limiter, metrics *Metrics, workers int) *Queue {
	return &Queue{
		clock: clk, limiter: limiter, metrics: metrics, changed: func(string) {}, lanes: newLanes(workers),
		ready:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[types.UID]{Clock: clk}),
		entries: map[types.UID]*entry{}, nodes: map[string]map[types.UID]bool{}, budgets: map[types.NamespacedName]*budget{},
	}
}

// run processes the queue until the context ends.
func (q *Queue) run(ctx context.Context) {
	var group sync.WaitGroup
	for range q.lanes.limit * maxUnanswered {
		group.Go(func() {
			for {
				uid, end := q.ready.Get()
				if end {
					return
				}
				q.process(ctx, uid)
				q.ready.Done(uid)
			}
		})
	}
	<-ctx.Done()
	q.ready.ShutDown()
	group.Wait()
}

// SetTasks replaces the tasks of a node. A pod without a task is not evicted any more.
func (q *Queue) SetTasks(node string, tasks []drain.Task) {
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
			// A deletion does not wait for the next eviction.
			e.next, e.times = time.Time{}, 0
		}
		e.task = task
		// A pod that waits is queued again when its budget changes; otherwise hundreds of nodes that wait for one budget would queue all of their
		// pods in each reconciliation.
		if !e.requesting && (!e.waiting || !task.Blocked) {
			q.ready.Add(task.UID)
		}
	}
	for uid := range q.nodes[node] {
		if e := q.entries[uid]; e != nil && !wanted[uid] {
			delete(q.entries, uid)
			q.offerNext(e)
			q.passOn(e)
		}
	}
	if len(wanted) == 0 {
		delete(q.nodes, node)
		return
	}
	q.nodes[node] = wanted
}

// LastAnswer returns the last answer for a pod.
func (q *Queue) LastAnswer(uid types.UID) (drain.Answer, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[uid]
	if e == nil || e.times == 0 {
		return drain.Answer{}, false
	}
	return e.answer, true
}

// process makes the request for one pod if that is possible now.
func (q *Queue) process(ctx context.Context, uid types.UID) {
	q.mu.Lock()
	e := q.entries[uid]
	if e == nil || e.requesting {
		q.mu.Unlock()
		return
	}
	task := e.task
	q.mu.Unlock()
	verdict, present := q.assess(ctx, task)
	counted, lanes, admitted := q.admit(task, verdict, present)
	if !admitted {
		q.mu.Lock()
		q.passOn(e)
		q.mu.Unlock()
		return
	}
	defer q.leave(lanes)
	if err := q.limiter.Wait(ctx); err != nil {
		return // the operator stops
	}
	if !q.wanted(task) {
		// The drain was cancelled while this request waited for the rate limiter.
		q.finish(counted, task.UID, false)
		return
	}
	release := q.lanes.acquire()
	err := q.request(ctx, task)
	release()
	answer := drain.AnswerOf(err)
	q.finish(counted, task.UID, answer.Outcome == drain.Accepted)
	if q.recordAnswer(task, answer) {
		q.changed(task.Node)
	}
}

// request makes the request for one pod, and completes it when the operator stops. The API server counts an eviction in the budget before it deletes
// the pod: after a request that is dropped between the two, the budget would allow one disruption too few until kube-controller-manager corrects it
// two minutes later (k8s.io/kubernetes/pkg/controller/disruption, DeletionTimeout).
func (q *Queue) request(ctx context.Context, task drain.Task) error {
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	stopped := context.AfterFunc(ctx, func() {
		select {
		case <-sending.Done():
		case <-q.clock.After(stopTimeout):
			cancel()
		}
	})
	defer stopped()
	return q.send(sending, task)
}

// wanted reports whether a pod still has to leave.
func (q *Queue) wanted(task drain.Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[task.UID]
	return e != nil && e.requesting
}

// admit reports whether the request for a pod may be made now, and returns the budget that it counts against, if any. If not, the pod is queued again
// when that may have changed.
func (q *Queue) admit(task drain.Task, verdict drain.Verdict, present bool) (counted *budget, lanes []string, admitted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e, now := q.entries[task.UID], q.clock.Now()
	if e == nil || e.requesting {
		return nil, nil, false
	}
	if !present {
		q.offerNext(e)
		return nil, nil, false
	}
	if next := later(e.next, q.throttledUntil); now.Before(next) {
		q.ready.AddAfter(task.UID, next.Sub(now))
		q.offerNext(e)
		return nil, nil, false
	}
	if lanes = lanesOf(e); !q.lanes.free(e, lanes) {
		q.offerNext(e)
		return nil, nil, false
	}
	if task.Grace == nil {
		if counted, admitted = q.reserveOrPark(e, verdict, now); !admitted {
			return nil, nil, false
		}
	}
	if counted == nil {
		q.offerNext(e)
	}
	e.requesting, e.waiting, e.offered, e.parked, e.turn = true, false, false, false, ""
	q.lanes.enter(lanes)
	return counted, lanes, true
}

// leave ends a request in its lanes, and queues the next pod that waits for each.
func (q *Queue) leave(lanes []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, lane := range lanes {
		q.lanes.leave(lane)
		q.next(lane)
	}
}

// passOn queues the next pod of a lane after a pod did not enter the lane in its turn.
func (q *Queue) passOn(e *entry) {
	if lane := e.turn; lane != "" {
		e.turn = ""
		q.next(lane)
	}
}

// next queues the next pod that waits for a lane, if it is free.
func (q *Queue) next(lane string) {
	for waiting := q.lanes.parked[lane]; len(waiting) > 0 && q.lanes.busy[lane] < q.lanes.limit; waiting = q.lanes.parked[lane] {
		q.lanes.parked[lane] = waiting[1:]
		if len(waiting) == 1 {
			delete(q.lanes.parked, lane)
		}
		if e := q.entries[waiting[0]]; e != nil && e.parked {
			e.parked, e.turn = false, lane
			q.ready.Add(waiting[0])
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// recordAnswer records the answer to a request, and reports whether it differs from the one before.
func (q *Queue) recordAnswer(task drain.Task, answer drain.Answer) bool {
	q.metrics.evictions.WithLabelValues(codeLabel(answer.Code), requestLabel(task)).Inc()
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	e := q.entries[task.UID]
	if answer.Outcome == drain.Throttled {
		q.throttledUntil = later(q.throttledUntil, now.Add(answer.RetryIn(1)))
	}
	if e == nil {
		return false
	}
	e.requesting = false
	changed := e.times == 0 || e.answer.Outcome != answer.Outcome || e.answer.Message != answer.Message
	if e.answer.Outcome != answer.Outcome {
		e.times = 0
	}
	e.times++
	e.answer = answer
	e.next = now.Add(answer.RetryIn(e.times))
	q.ready.AddAfter(task.UID, e.next.Sub(now))
	return changed
}
