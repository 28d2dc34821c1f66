package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/internal/drain"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// testQueue is a queue whose requests the test answers.
type testQueue struct {
	*Queue
	t *testing.T

	mu sync.Mutex
	// allowed is the number of disruptions in the status of each budget; budgets are the budgets of each pod.
	allowed map[string]int
	budgets map[string][]string
	// answers are the errors of the requests for each pod.
	answers map[string]error
	// gone are the pods that do not exist any more.
	gone map[string]bool
	sent []string
	// changedNodes are the nodes that changed was called with.
	changedNodes []string
}

// withFakeTime runs a test in a synctest bubble.
func withFakeTime(t *testing.T, test func(q *testQueue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t)
		defer q.ready.ShutDown()
		test(q)
	})
}

func newTestQueue(t *testing.T) *testQueue {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	q := &testQueue{
		Queue: newQueue(clock.RealClock{}, rate.NewLimiter(rate.Inf, 1), metrics, 3), t: t,
		allowed: map[string]int{}, budgets: map[string][]string{}, answers: map[string]error{}, gone: map[string]bool{},
	}
	q.send = func(_ context.Context, task drain.Task) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		text := task.Name
		if task.Grace != nil {
			text += fmt.Sprintf(" %ds", *task.Grace)
		}
		q.sent = append(q.sent, text)
		return q.answers[task.Name]
	}
	q.assess = func(_ context.Context, task drain.Task) (drain.Verdict, bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		v := drain.Verdict{Outcome: drain.Accepted}
		for _, name := range q.budgets[task.Name] {
			v.Budgets = append(v.Budgets, types.NamespacedName{Namespace: "shop", Name: name})
		}
		switch len(v.Budgets) {
		case 0:
		case 1:
			v.Counted, v.Allowed = true, q.allowed[v.Budgets[0].Name]
			if v.Allowed == 0 {
				v.Outcome = drain.BudgetSpent
			}
		default:
			v.Outcome = drain.SeveralBudgets
		}
		return v, !q.gone[task.Name]
	}
	q.changed = func(node string) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changedNodes = append(q.changedNodes, node)
	}
	return q
}

func tasks(node string, names ...string) []drain.Task {
	out := make([]drain.Task, len(names))
	for i, name := range names {
		out[i] = drain.Task{UID: types.UID("uid-" + name), Namespace: "shop", Name: name, Node: node}
	}
	return out
}

// processAll processes all pods that are ready and returns what was sent.
func (q *testQueue) processAll() string {
	q.t.Helper()
	for q.ready.Len() > 0 {
		uid, _ := q.ready.Get()
		q.process(q.t.Context(), uid)
		q.ready.Done(uid)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	sent := slices.Clone(q.sent)
	q.sent = nil
	slices.Sort(sent)
	return strings.Join(sent, ", ")
}

// after lets time pass, and processes the pods that are ready then.
func (q *testQueue) after(wait time.Duration) string {
	q.t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	return q.processAll()
}

// budget changes the status of a budget, and returns what is sent then, and the nodes with pods that wait for it.
func (q *testQueue) budget(name string, allowed int, disrupted ...string) (sent, nodes string) {
	q.t.Helper()
	q.mu.Lock()
	q.allowed[name] = allowed
	q.mu.Unlock()
	waiting := q.budgetChanged(types.NamespacedName{Namespace: "shop", Name: name}, allowed,
		func(pod string) bool { return slices.Contains(disrupted, pod) }, false)
	slices.Sort(waiting)
	return q.processAll(), strings.Join(waiting, ", ")
}

func (q *testQueue) expect(got, want string) {
	q.t.Helper()
	if got != want {
		q.t.Errorf("sent %q, want %q", got, want)
	}
}

func tooMany(budget bool, retry int32) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: retry}}
	if budget {
		status.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "no"}}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

func TestQueue_OneRequestPerPod(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.SetTasks("n1", tasks("n1", "a", "b"))
		q.SetTasks("n2", tasks("n2", "c"))
		q.expect(q.processAll(), "a, b, c")
		q.SetTasks("n1", tasks("n1", "a", "b"))
		q.expect(q.processAll(), "")
		if want := "n1 n1 n2"; strings.Join(slices.Sorted(slices.Values(q.changedNodes)), " ") != want {
			t.Errorf("changed %v, want %s", q.changedNodes, want)
		}
		if answer, ok := q.LastAnswer("uid-a"); !ok || answer.Outcome != drain.Accepted {
			t.Errorf("%+v, %v", answer, ok)
		}
		// Accepted, and still there: the requests are repeated.
		q.expect(q.after(10*time.Second), "a, b, c")
	})
}

func TestSetTasks_PodRemoved(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"], q.budgets["b"] = []string{"web"}, []string{"web"}
		q.SetTasks("n1", tasks("n1", "a", "b"))
		q.expect(q.processAll(), "")
		q.SetTasks("n1", tasks("n1", "b"))
		sent, nodes := q.budget("web", 5)
		q.expect(sent, "b")
		if nodes != "n1" {
			t.Errorf("nodes %q", nodes)
		}
		q.SetTasks("n1", nil)
		if len(q.entries) != 0 || len(q.nodes) != 0 {
			t.Errorf("left: %v, %v", q.entries, q.nodes)
		}
		if _, ok := q.LastAnswer("uid-b"); ok {
			t.Error("an answer is left")
		}
	})
}

// No request is made while a budget is spent, and no more than it allows until its status shows the evictions before.
func TestQueue_AsManyAsTheBudgetAllows(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		for _, pod := range []string{"a", "b", "c", "d"} {
			q.budgets[pod] = []string{"web"}
		}
		q.SetTasks("n1", tasks("n1", "a", "b"))
		q.SetTasks("n2", tasks("n2", "c", "d"))
		q.expect(q.processAll(), "")
		sent, nodes := q.budget("web", 1)
		q.expect(sent, "a")
		if nodes != "n1, n2" {
			t.Errorf("nodes %q", nodes)
		}
		// The status does not show the eviction of a yet.
		sent, _ = q.budget("web", 1)
		q.expect(sent, "")
		sent, _ = q.budget("web", 0, "a")
		q.expect(sent, "")
		sent, _ = q.budget("web", 2)
		q.expect(sent, "b, c")
		sent, _ = q.budget("web", 1, "b", "c")
		q.expect(sent, "d")
	})
}

// Each decision about a node has a task for all of its pods. Pods that wait for their budget are not queued again.
func TestSetTasks_PodsWaitForTheirBudget(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"] = []string{"web"}
		blocked := tasks("n1", "a")
		blocked[0].Blocked = true
		q.SetTasks("n1", blocked)
		q.expect(q.processAll(), "")
		q.SetTasks("n1", blocked)
		if n := q.ready.Len(); n != 0 {
			t.Errorf("%d pods are queued again", n)
		}
		// The budget does not apply any more, for example because the pod is not ready.
		blocked[0].Blocked = false
		q.SetTasks("n1", blocked)
		if n := q.ready.Len(); n != 1 {
			t.Errorf("%d pods are queued again", n)
		}
		q.expect(q.processAll(), "")
		blocked[0].Blocked = true
		sent, _ := q.budget("web", 1)
		q.expect(sent, "a")
	})
}

// Two evictions that conflict in the status of their budget delay each other in the API server.
func TestQueue_OneEvictionAtATimePerBudget(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		for pod, budget := range map[string]string{"a": "web", "b": "web", "c": "web", "d": "db"} {
			q.budgets[pod] = []string{budget}
		}
		q.allowed["web"], q.allowed["db"] = 9, 9
		send, meanwhile := q.send, ""
		q.send = func(ctx context.Context, task drain.Task) error {
			if task.Name == "a" {
				q.send = send
				meanwhile = q.processAll()
			}
			return send(ctx, task)
		}
		q.SetTasks("n1", tasks("n1", "a", "b", "c", "d"))
		q.expect(q.processAll(), "a, b, c")
		q.expect(meanwhile, "d")
	})
}

// If a pod does not need the disruption that it was offered, the queue offers it to the next pod.
func TestQueue_OffersTheNextPod(t *testing.T) {
	for name, change := range map[string]func(q *testQueue){
		"gone":                 func(q *testQueue) { q.gone["a"] = true },
		"task removed":         func(q *testQueue) { q.SetTasks("n1", tasks("n1", "b", "c")) },
		"no budget":            func(q *testQueue) { q.budgets["a"] = nil },
		"retry later":          func(q *testQueue) { q.entries["uid-a"].next = time.Now().Add(time.Minute) },
		"next one has no task": func(q *testQueue) { q.SetTasks("n1", tasks("n1", "a", "c")) },
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(q *testQueue) {
				for _, pod := range []string{"a", "b", "c"} {
					q.budgets[pod] = []string{"web"}
				}
				q.SetTasks("n1", tasks("n1", "a", "b", "c"))
				q.expect(q.processAll(), "")
				q.allowed["web"] = 1
				q.budgetChanged(types.NamespacedName{Namespace: "shop", Name: "web"}, 1, func(string) bool { return false }, false)
				change(q)
				want := map[string]string{"no budget": "a, b", "next one has no task": "a"}[name]
				if want == "" {
					want = "b"
				}
				q.expect(q.processAll(), want)
			})
		})
	}
}

// A disruption that the status of the budget never shows is offered again after unobservedTimeout.
func TestQueue_StatusDoesNotShowTheEviction(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"], q.budgets["b"] = []string{"web"}, []string{"web"}
		q.allowed["web"] = 1
		q.SetTasks("n1", tasks("n1", "a", "b"))
		q.expect(q.processAll(), "a")
		q.expect(q.after(unobservedTimeout-time.Millisecond), "")
		q.expect(q.after(2*time.Millisecond), "b")
	})
}

// A pod with two budgets cannot be evicted, so the disruption of one of them is for the next pod.
func TestQueue_PodWithTwoBudgetsDoesNotBlock(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"], q.budgets["b"] = []string{"web", "all"}, []string{"web"}
		q.SetTasks("n1", tasks("n1", "a", "b"))
		q.expect(q.processAll(), "")
		sent, _ := q.budget("web", 1)
		q.expect(sent, "b")
	})
}

// A selector is parsed once per generation of a budget.
func TestSelectors_ParsedOnce(t *testing.T) {
	budget := func(uid string, generation int64, app string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID(uid), Generation: generation},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}
	}
	s := newSelectors()
	for _, c := range []struct {
		budget *policyv1.PodDisruptionBudget
		want   string
	}{
		{budget("one", 1, "a"), "app=a"}, {budget("one", 1, "not parsed"), "app=a"}, {budget("one", 2, "b"), "app=b"},
		{budget("two", 2, "c"), "app=c"},
	} {
		if got := s.of(c.budget).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if s.forget(types.NamespacedName{Namespace: "shop", Name: "web"}); len(s.parsed) != 0 {
		t.Error("the selector of a budget that is gone is kept")
	}
}

func TestQueue_APIServerDenies(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"], q.budgets["b"], q.allowed["web"] = []string{"web"}, []string{"web"}, 1
		q.answers["a"] = tooMany(true, 0)
		q.SetTasks("n1", tasks("n1", "a", "b"))
		// The eviction of a is denied, and b is offered the disruption.
		q.expect(q.processAll(), "a, b")
		if answer, _ := q.LastAnswer("uid-a"); answer.Outcome != drain.BudgetSpent {
			t.Errorf("%+v", answer)
		}
		delete(q.answers, "a")
		q.expect(q.after(time.Second), "") // the eviction of b still counts against the budget
		sent, _ := q.budget("web", 1, "b")
		q.expect(sent, "a")
	})
}

// A status that stays wrong must not block a drain forever: one pod is evicted once per probeInterval.
func TestQueue_Probe(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"], q.budgets["b"] = []string{"web"}, []string{"web"}
		q.SetTasks("n1", tasks("n1", "a", "b"))
		q.expect(q.processAll(), "")
		q.answers["a"], q.answers["b"] = tooMany(true, 0), tooMany(true, 0)
		sent := q.after(probeInterval)
		if sent != "a" && sent != "b" {
			t.Errorf("sent %q, want one of the two", sent)
		}
	})
}

func TestQueue_SeveralBudgets(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"] = []string{"web", "all"}
		q.allowed["web"], q.allowed["all"] = 1, 1
		q.SetTasks("n1", tasks("n1", "a"))
		q.expect(q.processAll(), "")
		q.mu.Lock()
		q.budgets["a"] = []string{"all"}
		q.mu.Unlock()
		nodes := q.budgetGone(types.NamespacedName{Namespace: "shop", Name: "web"})
		q.expect(q.processAll(), "a")
		if len(nodes) != 1 {
			t.Errorf("nodes %v", nodes)
		}
	})
}

// The delay that a busy API server requests applies to all pods.
func TestQueue_Throttled(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.answers["a"] = tooMany(false, 7)
		q.SetTasks("n1", tasks("n1", "a"))
		q.expect(q.processAll(), "a")
		delete(q.answers, "a")
		q.SetTasks("n2", tasks("n2", "b"))
		q.expect(q.processAll(), "")
		q.expect(q.after(7*time.Second), "a, b")
	})
}

func TestQueue_RetriesWithBackoff(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.answers["a"] = errors.New("connection refused")
		q.SetTasks("n1", tasks("n1", "a"))
		q.expect(q.processAll(), "a")
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
			q.SetTasks("n1", tasks("n1", "a"))
			q.expect(q.processAll(), "")
			q.expect(q.after(wait), "a")
		}
		if len(q.changedNodes) != 1 {
			t.Errorf("changed was called %d times for the same answer", len(q.changedNodes))
		}
	})
}

// After the deadline a deletion replaces the eviction at once, independent of the budget and of the backoff.
func TestSetTasks_DeletionReplacesEviction(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.budgets["a"] = []string{"web"}
		q.SetTasks("n1", tasks("n1", "a"))
		q.expect(q.processAll(), "")
		forced := tasks("n1", "a")
		forced[0].Grace = new(int64(5))
		q.SetTasks("n1", forced)
		q.expect(q.processAll(), "a 5s")
	})
}

// The request of a task that is removed while it waits for the rate limiter is not made.
func TestQueue_TaskRemovedWhileItWaits(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		q.limiter = rate.NewLimiter(rate.Every(200*time.Millisecond), 1)
		q.limiter.Allow()
		q.SetTasks("n1", tasks("n1", "a"))
		uid, _ := q.ready.Get()
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.process(q.t.Context(), uid)
		}()
		requesting := func() bool {
			q.Queue.mu.Lock()
			defer q.Queue.mu.Unlock()
			return q.entries[uid].requesting
		}
		for deadline := time.Now().Add(30 * time.Second); !requesting(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the request does not wait for the rate limiter")
			}
		}
		q.SetTasks("n1", nil)
		<-done
		q.expect(q.processAll(), "")
	})
}
