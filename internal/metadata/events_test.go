package metadata

import (
	"testing"

	"github.com/drover-io/drover/internal/metadata/plan"
)

func TestProblemEvents(t *testing.T) {
	for _, reason := range []plan.Reason{plan.Invalid, plan.Duplicate, plan.Refused, plan.InConflict, plan.BadRecord} {
		if problemEvents[reason] == "" {
			t.Errorf("no event reports a problem of reason %s", reason)
		}
	}
}
