package plan

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/status"
)

func TestLimitText(t *testing.T) {
	for want, value := range map[string]*intstr.IntOrString{
		"100%": nil, "40%": new(intstr.FromString("40%")), "4": new(intstr.FromInt32(4)), "nonsense": new(intstr.FromString("nonsense")),
	} {
		if got := limitText(value); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A reason that BlockedReasons lacks would be sorted before all others.
func TestBlockedReasons_AreComplete(t *testing.T) {
	others := []string{ReasonNothing, ReasonRemediating, ReasonTooMany}
	for _, doc := range ConditionDocs() {
		if doc.Type == string(ConditionProgressing) && !slices.Contains(others, doc.Reason) && !slices.Contains(BlockedReasons, doc.Reason) {
			t.Errorf("BlockedReasons lacks %s", doc.Reason)
		}
	}
	for _, reason := range BlockedReasons {
		if !slices.ContainsFunc(ConditionDocs(), func(d status.ConditionDoc) bool {
			return d.Type == string(ConditionProgressing) && d.Reason == reason
		}) {
			t.Errorf("%s is not described", reason)
		}
	}
}
