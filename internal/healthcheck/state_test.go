package healthcheck

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

func TestFailures_Forgotten(t *testing.T) {
	f := newFailures()
	f.record("a", plan.StartFailures{}.Next(start, start))
	f.record("b", plan.StartFailures{}.Next(start, start.Add(24*time.Hour)))
	f.forget([]types.UID{"c"})
	f.expire(start.Add(27 * time.Hour))
	if len(f.owners) != 1 || f.owners["b"].Rounds != 1 {
		t.Errorf("%v", f.owners)
	}
	f.forget([]types.UID{"b"})
	if len(f.owners) != 0 {
		t.Errorf("%v", f.owners)
	}
}
