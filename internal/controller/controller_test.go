package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

var key = types.NamespacedName{Namespace: "ns", Name: "a"}

func TestRun_TwiceUnderTheSameName(t *testing.T) {
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		reconciled := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			cancel()
			return reconcile.Result{}, nil
		})
		one := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(reconcile.Request{NamespacedName: key})
			return nil
		})
		if err := Run(ctx, reconciled, Options{Name: "again", LogKey: "object"}, one); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRun_SourceFails(t *testing.T) {
	broken := errors.New("broken")
	failing := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return broken })
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
	if err := Run(t.Context(), reconciler, Options{Name: "failing"}, failing); !errors.Is(err, broken) {
		t.Errorf("Run returns %v", err)
	}
}

func TestRequeue_ShortestDelayCounts(t *testing.T) {
	var requeue Requeue
	if requeue.Delay() != 0 {
		t.Errorf("nothing was asked for, the delay is %s", requeue.Delay())
	}
	for _, step := range []struct{ in, want time.Duration }{
		{time.Minute, time.Minute}, {time.Hour, time.Minute}, {time.Second, time.Second}, {-time.Hour, time.Millisecond}, {0, time.Millisecond},
	} {
		if requeue.In(step.in); requeue.Delay() != step.want {
			t.Errorf("in %s: the delay is %s, want %s", step.in, requeue.Delay(), step.want)
		}
	}
}

func TestConflicts_Result(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "n", errors.New("modified"))
	broken := errors.New("broken")
	conflicts := NewConflicts()
	for i, step := range []struct {
		err  error
		want time.Duration
	}{
		{nil, time.Hour},
		{conflict, RetryConflict}, {fmt.Errorf("patching: %w", conflict), 2 * RetryConflict},
		{apierrors.NewNotFound(corev1.Resource("nodes"), "n"), 4 * RetryConflict},
		{nil, time.Hour}, {conflict, RetryConflict}, {broken, 0}, {conflict, RetryConflict},
	} {
		var requeue Requeue
		requeue.In(time.Hour)
		result, err := conflicts.Result(key, requeue, step.err)
		if result.RequeueAfter != step.want || errors.Is(step.err, broken) != (err != nil) {
			t.Errorf("step %d: %s, %v", i, result.RequeueAfter, err)
		}
	}
	for range 20 {
		conflicts.Next(key)
	}
	if delay := conflicts.Next(key); delay != maxRetryConflict {
		t.Errorf("the longest delay is %s", delay)
	}
}

func TestOutcome(t *testing.T) {
	conflict := Failed(apierrors.NewConflict(corev1.Resource("nodes"), "n", errors.New("modified")))
	gone := Failed(apierrors.NewNotFound(corev1.Resource("nodes"), "n"))
	first, second := Failed(errors.New("first")), Failed(errors.New("second"))
	for name, test := range map[string]struct {
		steps  []Outcome
		want   time.Duration
		err    string
		counts bool
	}{
		"nothing":                               {nil, 0, "", false},
		"no error":                              {[]Outcome{Failed(nil)}, 0, "", false},
		"waiting: after the shortest delay":     {[]Outcome{{}, Waiting(time.Hour), Waiting(time.Minute), {}}, time.Minute, "", false},
		"waiting for what is due: at once":      {[]Outcome{Waiting(time.Hour), Waiting(-time.Hour)}, time.Millisecond, "", false},
		"conflict: shortly":                     {[]Outcome{{}, conflict, {}}, RetryConflict, "", true},
		"gone: shortly":                         {[]Outcome{gone}, RetryConflict, "", true},
		"conflict, due: no sooner than shortly": {[]Outcome{Waiting(0), conflict}, RetryConflict, "", true},
		"error":                                 {[]Outcome{Waiting(time.Hour), first}, 0, "first", false},
		"errors: all of them":                   {[]Outcome{first, {}, second}, 0, "first\nsecond", false},
		"error and conflict: the backoff":       {[]Outcome{conflict, first}, 0, "first", false},
	} {
		t.Run(name, func(t *testing.T) {
			conflicts, out := NewConflicts(), Outcome{}
			for _, step := range test.steps {
				out = out.And(step)
			}
			result, err := out.Result(key, conflicts)
			if err == nil {
				err = errors.New("")
			}
			if result.RequeueAfter != test.want || err.Error() != test.err {
				t.Errorf("reconciled again after %s, error %q; want %s, %q", result.RequeueAfter, err, test.want, test.err)
			}
			if counts := conflicts.Next(key) > RetryConflict; counts != test.counts {
				t.Errorf("it counts as a conflict: %t, want %t", counts, test.counts)
			}
		})
	}
}

// TestConflicts_Denied: a right or a policy that is being installed delays a write by seconds. A policy that denies every write does not cause a
// flood of requests.
func TestConflicts_Denied(t *testing.T) {
	conflicts, key := NewConflicts(), types.NamespacedName{Name: "n1"}
	var delays []string
	for range 8 {
		delays = append(delays, conflicts.Denied(key).String())
	}
	if got := strings.Join(delays, " "); got != "5s 10s 20s 40s 1m20s 2m40s 5m0s 5m0s" {
		t.Error(got)
	}
	if _, err := conflicts.Result(key, Requeue{}, nil); err != nil || conflicts.Denied(key) != FirstRetryDenied {
		t.Error("a success does not end the count")
	}
}

func TestStates(t *testing.T) {
	var ended []string
	created := 0
	states := NewStates(func() *int { created++; number := created; return &number }, func(key types.NamespacedName, uid types.UID, state *int) {
		ended = append(ended, fmt.Sprintf("%s %s %d", key.Name, uid, *state))
	})
	first := states.Get(key, "1")
	if states.Get(key, "1") != first {
		t.Error("the state of an object is another one")
	}
	if states.Get(key, "2") == first {
		t.Error("an object has the state of an earlier one of its name")
	}
	states.Forget(key)
	states.Forget(key)
	states.Get(key, "2")
	states.Clear()
	states.Clear()
	if want := []string{"a 1 1", "a 2 2", "a 2 3"}; !slices.Equal(ended, want) {
		t.Errorf("ended %q, want %q", ended, want)
	}
	NewStates(func() *int { return new(int) }, nil).Forget(key)
}

func TestIntervalAfter(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 50 * time.Millisecond: time.Second, 100 * time.Millisecond: 2 * time.Second, time.Minute: 5 * time.Second,
	} {
		if got := IntervalAfter(took); got != want {
			t.Errorf("after %s it is %s, not %s", took, got, want)
		}
	}
}
