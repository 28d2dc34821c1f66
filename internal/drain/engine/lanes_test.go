package engine

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/drain"
)

// inNamespaces returns tasks for pods of a node, each in a namespace.
func inNamespaces(node string, namespace func(i int) string, count int) []drain.Task {
	var all []drain.Task
	for i, task := range tasks(node, slices.Collect(func(yield func(string) bool) {
		for i := range count {
			if !yield(fmt.Sprintf("%s-%d", node, i)) {
				return
			}
		}
	})...) {
		task.Namespace = namespace(i)
		all = append(all, task)
	}
	return all
}

// TestQueue_WebhookHangs: pods behind an admission webhook that answers after 30 s do not delay others, whether they are in one namespace or in many,
// and are all asked for.
func TestQueue_WebhookHangs(t *testing.T) {
	refused := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError,
		Message: `Internal error occurred: failed calling webhook "slow.example.com": context deadline exceeded`}}
	for name, namespace := range map[string]func(i int) string{
		"in one namespace":   func(int) string { return "slow" },
		"in many namespaces": func(i int) string { return fmt.Sprintf("slow-%d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			withFakeTime(t, func(q *testQueue) {
				ctx, cancel := context.WithCancel(q.t.Context())
				begun, answered, asked, most, now := time.Now(), map[string]time.Duration{}, map[string]bool{}, 0, 0
				q.send = func(_ context.Context, task drain.Task) error {
					if !strings.HasPrefix(task.Namespace, "slow") {
						q.mu.Lock()
						defer q.mu.Unlock()
						if _, again := answered[task.Name]; !again {
							answered[task.Name] = time.Since(begun)
						}
						return nil
					}
					q.mu.Lock()
					asked[task.Name] = true
					now++
					most = max(most, now)
					q.mu.Unlock()
					time.Sleep(30 * time.Second)
					q.mu.Lock()
					now--
					q.mu.Unlock()
					return refused
				}
				q.SetTasks("n1", inNamespaces("n1", namespace, 70))
				done := make(chan struct{})
				go func() {
					defer close(done)
					q.run(ctx)
				}()
				time.Sleep(40 * time.Second)
				begun = time.Now()
				q.SetTasks("n2", inNamespaces("n2", func(int) string { return "other" }, 10))
				time.Sleep(20 * time.Minute)
				cancel()
				<-done
				slowest := time.Duration(0)
				for _, took := range answered {
					slowest = max(slowest, took)
				}
				if len(answered) != 10 || slowest > 5*time.Second {
					t.Errorf("%d of 10 other pods were evicted, the last after %s", len(answered), slowest)
				}
				if len(asked) != 70 {
					t.Errorf("%d of 70 pods behind the webhook were asked for", len(asked))
				}
				if limit := q.lanes.limit * maxUnanswered; most > limit {
					t.Errorf("%d requests were without an answer, want %d at most", most, limit)
				}
				if len(q.lanes.busy) > 0 {
					t.Errorf("requests are counted that have ended: %v", q.lanes.busy)
				}
			})
		})
	}
}

// TestQueue_LanesPassOn: a pod that does not use its turn in its namespace passes it on.
func TestQueue_LanesPassOn(t *testing.T) {
	withFakeTime(t, func(q *testQueue) {
		release := make(chan struct{})
		q.send = func(_ context.Context, task drain.Task) error {
			q.mu.Lock()
			q.sent = append(q.sent, task.Name)
			q.mu.Unlock()
			<-release
			return nil
		}
		ctx, cancel := context.WithCancel(q.t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			q.run(ctx)
		}()
		all := inNamespaces("n1", func(int) string { return "a" }, 8)
		q.SetTasks("n1", all)
		count := func() int {
			q.mu.Lock()
			defer q.mu.Unlock()
			return len(q.sent)
		}
		synctest.Wait()
		first := count()
		// The next ones go before their turn.
		q.mu.Lock()
		for _, task := range all {
			if !slices.Contains(q.sent, task.Name) && len(q.gone) < 2 {
				q.gone[task.Name] = true
			}
		}
		q.mu.Unlock()
		close(release)
		time.Sleep(5 * time.Second)
		if last := count(); first != q.lanes.limit || last != 6 {
			t.Errorf("%d requests at first, %d at last", first, last)
		}
		cancel()
		<-done
	})
}
