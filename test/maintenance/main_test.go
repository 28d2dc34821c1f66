// Package maintenance states what a NodeMaintenance does on a real control plane, in the words of its users: with the controllers that
// make pods and count budgets, the scheduler, and kwok, which plays kubelets.
package maintenance

import (
	"context"
	"errors"
	"flag"
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
	sharing sync.Mutex
	shared  *harness.Operator
)

func TestMain(m *testing.M) {
	// Most of the time these tests wait. What the user says on the command line is read later and counts more.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}}
	os.Exit(harness.Main(m, options, &env, finish))
}

// finish looks back at all tests.
func finish() error {
	var failures []error
	if shared != nil {
		failures = append(failures, shared.Stop())
	}
	if checker != nil {
		failures = append(failures, checker.Finish())
		checker.Stop()
	}
	if flag.Lookup("test.run").Value.String() == "" && !testing.Short() {
		failures = append(failures, harness.CheckPermissionsBut(env, func(e *cluster.AuditEvent) bool {
			return e.Received.After(outage.begun) && e.Received.Before(outage.over)
		}, "maintenance"))
	}
	return errors.Join(failures...)
}

// site makes a place for a test that shares the operator with others.
func site(t *testing.T) *harness.Site {
	t.Helper()
	t.Parallel()
	operator := sharedOperator(t)
	s := watched(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the operator logged about %s:\n%s", s.Name, about(operator.Log(), s.Name))
		}
	})
	return s
}

// about picks the lines that have a text in them.
func about(log, text string) string {
	var lines []string
	for line := range strings.SplitSeq(log, "\n") {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
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

func sharedOperator(t *testing.T) *harness.Operator {
	t.Helper()
	sharing.Lock()
	defer sharing.Unlock()
	if shared != nil {
		return shared
	}
	dir, err := os.MkdirTemp(env.Dir(), "operator-")
	if err != nil {
		t.Fatal(err)
	}
	operator, err := harness.Launch(context.Background(), env, dir, harness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	shared = operator
	if err := operator.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return operator
}
