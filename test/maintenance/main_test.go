// Package maintenance states what a NodeMaintenance does on a real control plane, in the words of its users: with the controllers that
// make pods and count budgets, the scheduler, and kwok, which plays kubelets.
package maintenance

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

// Tests that need an operator of their own come first, one after another. The others wait in t.Parallel until those are done, and
// share one.
var (
	begin   sync.Once
	checker *harness.Checker
	shared  harness.SharedOperator
)

func TestMain(m *testing.M) {
	harness.SetParallel(6)
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}}
	os.Exit(harness.Main(m, options, &env, finish))
}

// finish looks back at all tests.
func finish() error {
	failures := []error{shared.Stop()}
	if checker != nil {
		failures = append(failures, checker.Finish())
		checker.Stop()
	}
	failures = append(failures, harness.CheckPermissionsBut(env, func(e *cluster.AuditEvent) bool {
		isOfWebhook := strings.Contains(e.Message, "admission webhook")
		return isOfWebhook || e.Received.After(outage.begun) && e.Received.Before(outage.over)
	}, "maintenance"))
	return errors.Join(failures...)
}

// site makes a place for a test that shares the operator with others.
func site(t *testing.T) *harness.Site {
	t.Helper()
	t.Parallel()
	s := watched(t)
	shared.For(t, env).ReportAbout(t, s.Name)
	return s
}

// alone makes a place for a test that starts operators of its own.
func alone(t *testing.T) *harness.Site {
	t.Helper()
	return watched(t)
}

// watched makes a place where no eviction escapes.
func watched(t *testing.T) *harness.Site {
	t.Helper()
	begin.Do(func() {
		// The Deployment that is shipped would run on the tests' nodes: the operator under test is another process.
		if output, err := harness.Kubectl(t.Context(), env, nil, "scale", "deployment/drover", "--replicas=0", "-n", harness.SystemNamespace); err != nil {
			panic(fmt.Sprintf("scaling the Deployment: %v\n%s", err, output))
		}
		var err error
		if checker, err = harness.StartChecker(env); err != nil {
			panic(fmt.Sprintf("the checker of budgets does not start: %v", err))
		}
	})
	s := harness.NewWorld(t, env).Site()
	t.Cleanup(func() { checker.Verify(s) })
	return s
}
