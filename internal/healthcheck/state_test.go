package healthcheck

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

func TestByOwner(t *testing.T) {
	starts := newByOwner[time.Time]()
	starts.set("a", start)
	starts.set("b", start.Add(time.Hour))
	starts.remove(func(_ types.UID, at time.Time) bool { return at.Equal(start) })
	if got := starts.of(map[types.UID]bool{"a": true, "b": true, "c": true}); len(got) != 1 || !got["b"].Equal(start.Add(time.Hour)) {
		t.Errorf("%v", got)
	}
}

// Failures and starts of owners that do not come back are forgotten.
func TestReconcile_ForgetsOwners(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("wu")...)
	s.failures.set("gone", plan.StartFailures{}.Next(start, start))
	s.failures.set("young", plan.StartFailures{}.Next(start, start.Add(24*time.Hour)))
	s.starts.set("gone", start)
	s.advance(27 * time.Hour)
	s.mustReconcile("c", "delete Machine/m1, "+statusC)
	if len(s.failures.values) != 1 || s.failures.values["young"].Rounds != 1 || len(s.starts.values) != 1 || s.starts.values[owner].IsZero() {
		t.Errorf("failures %v, starts %v", s.failures.values, s.starts.values)
	}
}
