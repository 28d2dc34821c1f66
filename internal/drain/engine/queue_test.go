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

// ground is a queue whose requests are answered by the test, and whose budgets are its.
type ground struct {
	*Queue
	t *testing.T

	mu sync.Mutex
	// allowed is what the status of each budget says; budgets are those of each pod.
	allowed map[string]int
	budgets map[string][]string
	// answers are what the API server says to a pod's requests, nil for yes.
	answers map[string]error
	// gone are the pods that are not there any more.
	gone map[string]bool
	sent []string
	told []string
}

// inTime runs a test in a time of its own, in which it is known when nothing more will happen.
func inTime(t *testing.T, test func(g *ground)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGround(t)
		defer g.ready.ShutDown()
		test(g)
	})
}

func newGround(t *testing.T) *ground {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{
		Queue: newQueue(clock.RealClock{}, rate.NewLimiter(rate.Inf, 1), metrics), t: t,
		allowed: map[string]int{}, budgets: map[string][]string{}, answers: map[string]error{}, gone: map[string]bool{},
	}
	g.send = func(_ context.Context, task drain.Task) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		text := task.Name
		if task.Grace != nil {
			text += fmt.Sprintf(" %ds", *task.Grace)
		}
		g.sent = append(g.sent, text)
		return g.answers[task.Name]
	}
	g.assess = func(_ context.Context, task drain.Task) (drain.Verdict, bool) {
		g.mu.Lock()
		defer g.mu.Unlock()
		v := drain.Verdict{Outcome: drain.Accepted}
		for _, name := range g.budgets[task.Name] {
			v.Budgets = append(v.Budgets, types.NamespacedName{Namespace: "shop", Name: name})
		}
		switch len(v.Budgets) {
		case 0:
		case 1:
			v.Counted, v.Allowed = true, g.allowed[v.Budgets[0].Name]
			if v.Allowed == 0 {
				v.Outcome = drain.BudgetSpent
			}
		default:
			v.Outcome = drain.SeveralBudgets
		}
		return v, !g.gone[task.Name]
	}
	g.changed = func(node string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.told = append(g.told, node)
	}
	return g
}

func tasks(node string, names ...string) []drain.Task {
	out := make([]drain.Task, len(names))
	for i, name := range names {
		out[i] = drain.Task{UID: types.UID("uid-" + name), Namespace: "shop", Name: name, Node: node}
	}
	return out
}

// work does all that can be done now and returns what was sent.
func (g *ground) work() string {
	g.t.Helper()
	for g.ready.Len() > 0 {
		uid, _ := g.ready.Get()
		g.step(g.t.Context(), uid)
		g.ready.Done(uid)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	sent := slices.Clone(g.sent)
	g.sent = nil
	slices.Sort(sent)
	return strings.Join(sent, ", ")
}

// after lets time pass and does what is due then.
func (g *ground) after(wait time.Duration) string {
	g.t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	return g.work()
}

// budget changes a budget's status and returns what is sent then, and the nodes that hear of it.
func (g *ground) budget(name string, allowed int, disrupted ...string) (sent, nodes string) {
	g.t.Helper()
	g.mu.Lock()
	g.allowed[name] = allowed
	g.mu.Unlock()
	told := g.budgetChanged(types.NamespacedName{Namespace: "shop", Name: name}, allowed,
		func(pod string) bool { return slices.Contains(disrupted, pod) }, false)
	slices.Sort(told)
	return g.work(), strings.Join(told, ", ")
}

func (g *ground) expect(got, want string) {
	g.t.Helper()
	if got != want {
		g.t.Errorf("sent %q, want %q", got, want)
	}
}

func tooMany(budget bool, retry int32) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: retry}}
	if budget {
		status.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "no"}}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

func TestEachPodIsAskedOnce(t *testing.T) {
	inTime(t, func(g *ground) {
		g.Want("n1", tasks("n1", "a", "b"))
		g.Want("n2", tasks("n2", "c"))
		g.expect(g.work(), "a, b, c")
		g.Want("n1", tasks("n1", "a", "b"))
		g.expect(g.work(), "")
		if want := "n1 n1 n2"; strings.Join(slices.Sorted(slices.Values(g.told)), " ") != want {
			t.Errorf("told %v, want %s", g.told, want)
		}
		if answer, ok := g.Answered("uid-a"); !ok || answer.Outcome != drain.Accepted {
			t.Errorf("%+v, %v", answer, ok)
		}
		// Accepted, and still there: something has undone it, so it is asked again in the end.
		g.expect(g.after(10*time.Second), "a, b, c")
	})
}

func TestWhatIsNotWantedAnyMoreIsLeftInPeace(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"], g.budgets["b"] = []string{"web"}, []string{"web"}
		g.Want("n1", tasks("n1", "a", "b"))
		g.expect(g.work(), "")
		g.Want("n1", tasks("n1", "b"))
		sent, nodes := g.budget("web", 5)
		g.expect(sent, "b")
		if nodes != "n1" {
			t.Errorf("told %q", nodes)
		}
		g.Want("n1", nil)
		if len(g.entries) != 0 || len(g.nodes) != 0 {
			t.Errorf("left: %v, %v", g.entries, g.nodes)
		}
		if _, ok := g.Answered("uid-b"); ok {
			t.Error("an answer is left")
		}
	})
}

// A spent budget costs no request at all; as many go as it allows, and no more until its status shows the ones before.
func TestBudgetsLetGoWhatTheyAllow(t *testing.T) {
	inTime(t, func(g *ground) {
		for _, pod := range []string{"a", "b", "c", "d"} {
			g.budgets[pod] = []string{"web"}
		}
		g.Want("n1", tasks("n1", "a", "b"))
		g.Want("n2", tasks("n2", "c", "d"))
		g.expect(g.work(), "")
		sent, nodes := g.budget("web", 1)
		g.expect(sent, "a")
		if nodes != "n1, n2" {
			t.Errorf("told %q", nodes)
		}
		// The status has not seen a yet: it still says 1, which was a's.
		sent, _ = g.budget("web", 1)
		g.expect(sent, "")
		sent, _ = g.budget("web", 0, "a")
		g.expect(sent, "")
		sent, _ = g.budget("web", 2)
		g.expect(sent, "b, c")
		sent, _ = g.budget("web", 1, "b", "c")
		g.expect(sent, "d")
	})
}

// Each look at a node names all of its pods again. Those whose budget says no, and that wait for it already, are not held against it again.
func TestParkedPodsAreLeftUntilTheirBudgetChanges(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"] = []string{"web"}
		waits := tasks("n1", "a")
		waits[0].Blocked = true
		g.Want("n1", waits)
		g.expect(g.work(), "")
		g.Want("n1", waits)
		if n := g.ready.Len(); n != 0 {
			t.Errorf("%d pods are looked at again", n)
		}
		// The budgets of another kind of pod: a is not ready any more, say.
		waits[0].Blocked = false
		g.Want("n1", waits)
		if n := g.ready.Len(); n != 1 {
			t.Errorf("%d pods are looked at again", n)
		}
		g.expect(g.work(), "")
		waits[0].Blocked = true
		sent, _ := g.budget("web", 1)
		g.expect(sent, "a")
	})
}

// Two evictions that meet in the status of their budget keep each other waiting in the API server.
func TestOneEvictionAtATimeForEachBudget(t *testing.T) {
	inTime(t, func(g *ground) {
		for pod, budget := range map[string]string{"a": "web", "b": "web", "c": "web", "d": "db"} {
			g.budgets[pod] = []string{budget}
		}
		g.allowed["web"], g.allowed["db"] = 9, 9
		send, meanwhile := g.send, ""
		g.send = func(ctx context.Context, task drain.Task) error {
			if task.Name == "a" {
				g.send = send
				meanwhile = g.work()
			}
			return send(ctx, task)
		}
		g.Want("n1", tasks("n1", "a", "b", "c", "d"))
		g.expect(g.work(), "a, b, c")
		g.expect(meanwhile, "d")
	})
}

// A place that is free goes to the next pod when the one that it was offered to needs none.
func TestAPlaceIsPassedOn(t *testing.T) {
	for name, spoil := range map[string]func(g *ground){
		"it is gone":               func(g *ground) { g.gone["a"] = true },
		"it is not wanted":         func(g *ground) { g.Want("n1", tasks("n1", "b", "c")) },
		"it needs no place":        func(g *ground) { g.budgets["a"] = nil },
		"it has to wait":           func(g *ground) { g.entries["uid-a"].next = time.Now().Add(time.Minute) },
		"the others are not there": func(g *ground) { g.Want("n1", tasks("n1", "a", "c")) },
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(g *ground) {
				for _, pod := range []string{"a", "b", "c"} {
					g.budgets[pod] = []string{"web"}
				}
				g.Want("n1", tasks("n1", "a", "b", "c"))
				g.expect(g.work(), "")
				g.allowed["web"] = 1
				g.budgetChanged(types.NamespacedName{Namespace: "shop", Name: "web"}, 1, func(string) bool { return false }, false)
				spoil(g)
				want := map[string]string{"it needs no place": "a, b", "the others are not there": "a"}[name]
				if want == "" {
					want = "b"
				}
				g.expect(g.work(), want)
			})
		})
	}
}

// A place that the budget's status never shows as taken is offered again after a while.
func TestAPlaceThatIsNotSeenToBeTaken(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"], g.budgets["b"] = []string{"web"}, []string{"web"}
		g.allowed["web"] = 1
		g.Want("n1", tasks("n1", "a", "b"))
		g.expect(g.work(), "a")
		g.expect(g.after(unseenFor-time.Millisecond), "")
		g.expect(g.after(2*time.Millisecond), "b")
	})
}

// Places are no help to a pod with two budgets, so it is in nobody's way.
func TestAPodWithTwoBudgetsTakesNobodysPlace(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"], g.budgets["b"] = []string{"web", "all"}, []string{"web"}
		g.Want("n1", tasks("n1", "a", "b"))
		g.expect(g.work(), "")
		sent, _ := g.budget("web", 1)
		g.expect(sent, "b")
	})
}

// A selector is read once for each generation of a budget, which is what the API server counts its changes by.
func TestSelectorsAreReadOnce(t *testing.T) {
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
		{budget("one", 1, "a"), "app=a"}, {budget("one", 1, "never looked at"), "app=a"}, {budget("one", 2, "b"), "app=b"},
		{budget("two", 2, "c"), "app=c"},
	} {
		if got := s.of(c.budget).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if s.forget(types.NamespacedName{Namespace: "shop", Name: "web"}); len(s.read) != 0 {
		t.Error("one that is gone is remembered")
	}
}

func TestTheApiServerHasTheLastWord(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"], g.budgets["b"], g.allowed["web"] = []string{"web"}, []string{"web"}, 1
		g.answers["a"] = tooMany(true, 0)
		g.Want("n1", tasks("n1", "a", "b"))
		// a is refused, and b gets the place that it leaves.
		g.expect(g.work(), "a, b")
		if answer, _ := g.Answered("uid-a"); answer.Outcome != drain.BudgetSpent {
			t.Errorf("%+v", answer)
		}
		delete(g.answers, "a")
		g.expect(g.after(time.Second), "") // b's eviction is still held against the budget
		sent, _ := g.budget("web", 1, "b")
		g.expect(sent, "a")
	})
}

// A status that is wrong for ever must not hold a node for ever: now and then one pod is tried all the same.
func TestProbe(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"], g.budgets["b"] = []string{"web"}, []string{"web"}
		g.Want("n1", tasks("n1", "a", "b"))
		g.expect(g.work(), "")
		g.answers["a"], g.answers["b"] = tooMany(true, 0), tooMany(true, 0)
		sent := g.after(probeEvery)
		if sent != "a" && sent != "b" {
			t.Errorf("sent %q, want one of the two", sent)
		}
	})
}

func TestSeveralBudgets(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"] = []string{"web", "all"}
		g.allowed["web"], g.allowed["all"] = 1, 1
		g.Want("n1", tasks("n1", "a"))
		g.expect(g.work(), "")
		g.mu.Lock()
		g.budgets["a"] = []string{"all"}
		g.mu.Unlock()
		nodes := g.budgetGone(types.NamespacedName{Namespace: "shop", Name: "web"})
		g.expect(g.work(), "a")
		if len(nodes) != 1 {
			t.Errorf("told %v", nodes)
		}
	})
}

// A busy API server is left alone by all, not by the pod alone that it told so.
func TestThrottled(t *testing.T) {
	inTime(t, func(g *ground) {
		g.answers["a"] = tooMany(false, 7)
		g.Want("n1", tasks("n1", "a"))
		g.expect(g.work(), "a")
		delete(g.answers, "a")
		g.Want("n2", tasks("n2", "b"))
		g.expect(g.work(), "")
		g.expect(g.after(7*time.Second), "a, b")
	})
}

func TestFailuresAreTriedAgainMoreRarely(t *testing.T) {
	inTime(t, func(g *ground) {
		g.answers["a"] = errors.New("connection refused")
		g.Want("n1", tasks("n1", "a"))
		g.expect(g.work(), "a")
		for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
			g.Want("n1", tasks("n1", "a"))
			g.expect(g.work(), "")
			g.expect(g.after(wait), "a")
		}
		if len(g.told) != 1 {
			t.Errorf("the same answer was told %d times", len(g.told))
		}
	})
}

// A deadline turns an eviction into a deletion at once, whatever the budget says and however long the next try is away.
func TestADeadlineOverrules(t *testing.T) {
	inTime(t, func(g *ground) {
		g.budgets["a"] = []string{"web"}
		g.Want("n1", tasks("n1", "a"))
		g.expect(g.work(), "")
		forced := tasks("n1", "a")
		forced[0].Grace = new(int64(5))
		g.Want("n1", forced)
		g.expect(g.work(), "a 5s")
	})
}

// What is withdrawn while it waits for its turn is not sent: the node may have been given back.
func TestWithdrawnWhileItWaits(t *testing.T) {
	inTime(t, func(g *ground) {
		g.limiter = rate.NewLimiter(rate.Every(200*time.Millisecond), 1)
		g.limiter.Allow()
		g.Want("n1", tasks("n1", "a"))
		uid, _ := g.ready.Get()
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.step(g.t.Context(), uid)
		}()
		asking := func() bool {
			g.Queue.mu.Lock()
			defer g.Queue.mu.Unlock()
			return g.entries[uid].asking
		}
		for deadline := time.Now().Add(30 * time.Second); !asking(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it does not wait for its turn")
			}
		}
		g.Want("n1", nil)
		<-done
		g.expect(g.work(), "")
	})
}

// The workers end with the context.
func TestRunStopsWithTheContext(t *testing.T) {
	inTime(t, func(g *ground) {
		ctx, cancel := context.WithCancel(g.t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.run(ctx, 3)
		}()
		for i := range 20 {
			node := fmt.Sprintf("n%d", i)
			g.Want(node, tasks(node, fmt.Sprintf("p%d", i)))
		}
		synctest.Wait()
		g.mu.Lock()
		if len(g.sent) != 20 {
			t.Errorf("%d sent", len(g.sent))
		}
		g.mu.Unlock()
		cancel()
		<-done
	})
}
