package upgrade

import (
	"fmt"
	"testing"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

// TestTurns_GatedUpgrade: Drover is upgraded from an earlier version in the middle of a gated upgrade, rolled back, and upgraded again. Each time the
// next one goes on where the one before was killed: no Job runs twice, and everything is restored.
func TestTurns_GatedUpgrade(t *testing.T) {
	harness.TestAllOnly(t, "it needs the operator of an earlier commit")
	s := newScenario(t, scenarioOptions{nodes: 4, rules: 2, late: true, pool: pausedMCP})
	turns := s.TakeTurns(harness.Options{})
	s.awaitValidation()
	s.upgrade()
	// Each of the four nodes has four Jobs.
	for _, jobs := range []int{2, 7, 12} {
		s.Eventually(fmt.Sprintf("%d Jobs", jobs), func() error {
			if made := len(s.jobs()); made < jobs {
				return fmt.Errorf("there are %d", made)
			}
			return nil
		})
		turns.Next()
	}
	run := s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if run.Status.Total != 4 || run.Status.Done != 4 || run.Status.Failed != 0 {
		t.Errorf("the status is %s", harness.JSON(run.Status))
	}
	if made := s.expectJobsOnce(); made != 4*4 {
		t.Errorf("%d Jobs, want %d", made, 4*4)
	}
}
