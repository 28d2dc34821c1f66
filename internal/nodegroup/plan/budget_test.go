package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
)

// TestInput_WindowStatus: the API server can store the status, whatever the windows are.
func TestInput_WindowStatus(t *testing.T) {
	in := &Input{Group: &v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Disruption: &v1alpha1.Disruption{Freezes: []v1alpha1.Freeze{{}}}}}}
	for name, test := range map[string]struct {
		changes time.Time
		shown   bool
	}{
		"never":                {time.Time{}, false},
		"the last year":        {time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), true},
		"later than RFC 3339":  {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), false},
		"later than it in UTC": {time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -5*60*60)), false},
	} {
		in.Budget = &Budget{Window: disruptionplan.Window{Closed: true, Message: strings.Repeat("x", 2000), Changes: test.changes}}
		got := in.WindowStatus()
		if len(got.Reason) > maxWindowReason || (got.NextChange != nil) != test.shown {
			t.Errorf("%s: %d bytes, next change %v", name, len(got.Reason), got.NextChange)
		}
	}
}

func TestInput_BlockedByBudget(t *testing.T) {
	counts := func(unavailable int) disruptionplan.Counts {
		return disruptionplan.Counts{Expected: 10, Limit: 2, Unavailable: unavailable}
	}
	closed := disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonFrozen, Message: "the end of the year"}
	for name, test := range map[string]struct {
		budget *Budget
		want   string
	}{
		"no budget":                  {nil, ""},
		"nothing unavailable":        {&Budget{Counts: counts(0)}, ""},
		"used up, and nothing waits": {&Budget{Counts: counts(2)}, ""},
		"used up":                    {&Budget{Counts: counts(2), Waiting: 1}, disruptionplan.ReasonBudgetExhausted},
		"exceeded":                   {&Budget{Counts: counts(3)}, disruptionplan.ReasonBudgetExceeded},
		"closed, and nothing waits":  {&Budget{Counts: counts(0), Window: closed}, ""},
		"closed":                     {&Budget{Counts: counts(2), Waiting: 1, Window: closed}, disruptionplan.ReasonFrozen},
		"a ceiling of a capability":  {&Budget{Counts: counts(1), Waiting: 1}, ""},
		"a ceiling of a capability, explained": {
			&Budget{Counts: counts(1), Waiting: 1, Explanation: disruptionplan.Explanation{Reason: disruptionplan.ReasonCapabilityExhausted, Message: "n1"}},
			disruptionplan.ReasonCapabilityExhausted,
		},
		"suspended": {
			&Budget{Counts: counts(1), Waiting: 1, Explanation: disruptionplan.Explanation{Reason: disruptionplan.ReasonSuspended}}, "",
		},
		"exceeded while it is a freeze": {&Budget{Counts: counts(3), Waiting: 1, Window: closed}, disruptionplan.ReasonBudgetExceeded},
	} {
		got, found := (&Input{Budget: test.budget}).blockedByBudget()
		if got.Reason != test.want || found != (test.want != "") {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
		}
	}
}

// TestWindowOf: windows and freezes are read as they are written. A window that cannot be read is closed.
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

// TestDecide_InvalidWindow: the schema does not know time zones, nor the numbers of a schedule.
func TestDecide_InvalidWindow(t *testing.T) {
	for name, c := range map[string]struct{ schedule, zone, want string }{
		"valid":                  {"0 22 * * *", "Europe/Berlin", ""},
		"an unknown time zone":   {"0 22 * * *", "Europe/Berln", "Europe/Berln"},
		"a minute out of bounds": {"99 22 * * *", "UTC", "99"},
	} {
		t.Run(name, func(t *testing.T) {
			group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
			group.Spec.Disruption = &v1alpha1.Disruption{
				Windows: []v1alpha1.Window{{Schedule: c.schedule, TimeZone: c.zone, Duration: metav1.Duration{Duration: time.Hour}}},
			}
			in := &Input{Group: group, Declaration: metadataplan.GroupDeclarationOf(group), Now: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
			ready := in.ready(&Decision{})
			if (ready.Reason == ReasonInvalidWindow) != (c.want != "") || !strings.Contains(ready.Message, c.want) {
				t.Errorf("%+v", ready)
			}
		})
	}
}
