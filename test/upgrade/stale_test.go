package upgrade

import (
	"testing"
	"time"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/stale"
)

// TestStale runs the workload of the crash lane with an operator whose view of one kind is old. Every Job must run exactly once, and
// nothing may be restored before its time.
func TestStale(t *testing.T) {
	smoke := []string{"upgrade/mutexrunconfigs/leader"}
	lane := stale.Lane{Package: "./test/upgrade", Sample: 15 * time.Second, Smoke: smoke, Workloads: []stale.Workload{{
		Name: "upgrade", Run: func(t *testing.T, d harness.Disturbance) string {
			made, _ := lifetime(t, d)
			return made
		},
	}}}
	lane.Run(t, env)
}
