package harness

import (
	"context"
	"flag"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drover-io/drover/test/cluster"
)

// SetParallel sets how many tests run at once, before a TestMain runs them: most of the time they wait for a control plane. The flag on the command
// line is read later and counts more.
func SetParallel(tests int) {
	if err := flag.Set("test.parallel", strconv.Itoa(tests)); err != nil {
		panic(err)
	}
}

// SharedOperator is an operator that tests share which call t.Parallel. They go on when all others of the package are over, so those may run
// operators of their own. The zero value starts one when the first test asks for it.
type SharedOperator struct {
	Options Options

	mu      sync.Mutex
	running *Operator
}

// For returns the operator when it is ready.
func (s *SharedOperator) For(t *testing.T, c *cluster.Cluster) *Operator {
	t.Helper()
	operator, err := s.start(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return operator
}

func (s *SharedOperator) start(c *cluster.Cluster) (*Operator, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running, nil
	}
	dir, err := os.MkdirTemp(c.Dir(), "operator-")
	if err != nil {
		return nil, err
	}
	// It outlives the test that asks first.
	operator, err := Launch(context.Background(), c, dir, s.Options)
	if err != nil {
		return nil, err
	}
	s.running = operator
	return operator, nil
}

// Stop stops the operator, if a test has asked for it. The next test that asks for it starts another one.
func (s *SharedOperator) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := s.running
	if s.running = nil; running == nil {
		return nil
	}
	return running.Stop()
}

// Pause stops the operator for a test that starts operators of its own, while no other test runs.
func (s *SharedOperator) Pause(t testing.TB) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Errorf("stopping the shared operator: %v", err)
	}
}

// ReportAbout adds the lines of the log that have a text in them to the log of a test that fails.
func (o *Operator) ReportAbout(t *testing.T, text string) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the operator logged about %s:\n%s", text, o.LogAbout(text))
		}
	})
}

// LogAbout returns the lines of the log that have a text in them.
func (o *Operator) LogAbout(text string) string {
	var lines []string
	for line := range strings.SplitSeq(o.Log(), "\n") {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
