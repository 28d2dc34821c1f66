package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

func TestInput_BlockedByBudget(t *testing.T) {
	counts := func(unavailable int) disruptionplan.Counts {
		return disruptionplan.Counts{Expected: 10, Limit: 2, Unavailable: unavailable}
	}
	closed := disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonFrozen, Message: "the end of the year"}
	for name, test := range map[string]struct {
		budget *Budget
		want   string
	}{
		"no budget":                     {nil, ""},
		"nothing unavailable":           {&Budget{Counts: counts(0)}, ""},
		"used up, and nothing waits":    {&Budget{Counts: counts(2)}, ""},
		"used up":                       {&Budget{Counts: counts(2), Waiting: 1}, disruptionplan.ReasonBudgetExhausted},
		"exceeded":                      {&Budget{Counts: counts(3)}, disruptionplan.ReasonBudgetExceeded},
		"closed, and nothing waits":     {&Budget{Counts: counts(0), Window: closed}, ""},
		"closed":                        {&Budget{Counts: counts(2), Waiting: 1, Window: closed}, disruptionplan.ReasonFrozen},
		"a ceiling of a capability":     {&Budget{Counts: counts(1), Waiting: 1}, ""},
		"exceeded while it is a freeze": {&Budget{Counts: counts(3), Waiting: 1, Window: closed}, disruptionplan.ReasonBudgetExceeded},
	} {
		got, found := (&Input{Budget: test.budget}).blockedByBudget()
		if got.Reason != test.want || found != (test.want != "") {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		}
	}
}

// TestWindowOf: windows and freezes are read as they are written, and one that cannot be read is closed.
func TestWindowOf(t *testing.T) {
	now := time.Date(2026, 11, 23, 21, 30, 0, 0, time.UTC) // a Monday, 22:30 in Berlin
	night := v1alpha1.Window{Schedule: "0 22 * * 1-5", Duration: metav1.Duration{Duration: 6 * time.Hour}, TimeZone: "Europe/Berlin"}
	late := night
	late.MinRemaining = &metav1.Duration{Duration: 6 * time.Hour}
	unknown := night
	unknown.TimeZone = "Nowhere/Land"
	freeze := v1alpha1.Freeze{From: metav1.NewTime(now.Add(-time.Hour)), To: metav1.NewTime(now.Add(time.Hour)), Reason: "a fair"}
	at := func(text string) time.Time {
		changes, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	for name, test := range map[string]struct {
		spec *v1alpha1.Disruption
		want disruptionplan.Window
	}{
		"no budget":   {nil, disruptionplan.Window{}},
		"always open": {&v1alpha1.Disruption{}, disruptionplan.Window{}},
		"open":        {&v1alpha1.Disruption{Windows: []v1alpha1.Window{night}}, disruptionplan.Window{Changes: at("2026-11-24T03:00:00Z")}},
		"ending": {&v1alpha1.Disruption{Windows: []v1alpha1.Window{late}}, disruptionplan.Window{
			Closed: true, Reason: disruptionplan.ReasonWindowClosed, Changes: at("2026-11-24T21:00:00Z"),
			Message: "less than minRemaining is left of the window, which is closed for what has not begun until 2026-11-24T21:00:00Z",
		}},
		"frozen": {&v1alpha1.Disruption{Windows: []v1alpha1.Window{night}, Freezes: []v1alpha1.Freeze{freeze}}, disruptionplan.Window{
			Closed: true, Reason: disruptionplan.ReasonFrozen, Changes: freeze.To.UTC(), Message: "no disruption begins until 2026-11-23T22:30:00Z: a fair",
		}},
		"unknown zone": {&v1alpha1.Disruption{Windows: []v1alpha1.Window{unknown}}, disruptionplan.Window{
			Closed: true, Reason: disruptionplan.ReasonWindowClosed,
		}},
	} {
		group := &v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Disruption: test.spec}}
		got := WindowOf(group, now)
		if name == "unknown zone" {
			got.Message = ""
		}
		if !got.Changes.Equal(test.want.Changes) {
			t.Errorf("%s: it changes at %s, not at %s", name, got.Changes, test.want.Changes)
		}
		got.Changes = test.want.Changes
		if got != test.want {
			t.Errorf("%s: the window is %+v, want %+v", name, got, test.want)
		}
	}
}
