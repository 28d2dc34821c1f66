package upgrade

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestCrash kills the operator before and after writes of a whole run. The next process must come to the same end: every Job has run once, and
// everything is restored.
func TestCrash(t *testing.T) {
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	var want string
	var writes int
	t.Run("undisturbed", func(t *testing.T) { want, writes = lifetime(t, harness.CrashPoint{}) })
	t.Logf("%d writes undisturbed, and the Jobs\n%s", writes, want)
	if writes < 30 {
		t.Fatal("that is no run")
	}
	for _, p := range harness.CrashPoints(t, random, writes) {
		t.Run(p.String(), func(t *testing.T) {
			if got, _ := lifetime(t, p); got != want {
				t.Errorf("after the crash there were the Jobs\n%s\nwithout it there were\n%s", got, want)
			}
		})
	}
}

// lifetime goes through a run under a disturbance. The pool is paused from the start: OpenShift does not wait for an operator that is down.
// It returns the Jobs that were made, and how many writes that took.
func lifetime(t *testing.T, d harness.Disturbance) (made string, writes int) {
	t.Helper()
	s := newScenario(t, scenarioOptions{rules: 2, late: true, pool: pausedMCP})
	mark := s.AuditMark()
	s.operator = harness.Start(t, env, d.Operator(1, harness.Options{}))
	s.upgrade()
	crashed := false
	s.Eventually("the run is done", func() error {
		select {
		case <-s.operator.Ended():
			if crashed {
				s.Fatalf("the second operator ended; its log:\n%s", s.operator.Log())
			}
			crashed = true
			s.operator = harness.Start(t, env, d.Operator(2, harness.Options{}))
		default:
		}
		if run := s.get("run"); run.Status.Phase != v1alpha1.PhaseDone || run.Status.Version != s.to {
			return fmt.Errorf("it is %s", harness.JSON(run.Status))
		}
		return nil
	})
	s.expectRestored()
	d.Wait()
	if d.Kills() && !crashed {
		t.Logf("the run was over before %s: how many there are depends on the time", d)
	}
	var lines []string
	for _, job := range s.jobs() {
		node := job.Annotations[plan.AnnotationNode]
		_, rule, _ := strings.Cut(job.Annotations[plan.AnnotationRule], "/")
		lines = append(lines, fmt.Sprintf("node %s, %s, %s", node[strings.LastIndex(node, "-")+1:], job.Labels[plan.LabelKind], rule))
	}
	slices.Sort(lines)
	if err := s.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n"), len(s.AllWrites(mark))
}
