package schedule

import (
	"slices"
	"testing"
	"time"
)

// TestCalendar_Open: the intervals are those in which At says that disruptions may begin, cut to the time that was asked for.
func TestCalendar_Open(t *testing.T) {
	nights := []Window{{Schedule: "0 22 * * *", Duration: 4 * time.Hour}}
	from := instant(t, "2026-09-01T23:00:00Z")
	to := from.Add(48 * time.Hour)
	freeze := Freeze{From: instant(t, "2026-09-02T21:00:00Z"), To: instant(t, "2026-09-03T00:30:00Z")}
	for name, test := range map[string]struct {
		windows []Window
		freezes []Freeze
		most    int
		want    []string
		until   string
	}{
		"always open": {nil, nil, 9, []string{"2026-09-01T23:00:00Z", "2026-09-03T23:00:00Z"}, ""},
		"nights": {
			nights, nil, 9, []string{
				"2026-09-01T23:00:00Z", "2026-09-02T02:00:00Z", "2026-09-02T22:00:00Z", "2026-09-03T02:00:00Z", "2026-09-03T22:00:00Z",
				"2026-09-03T23:00:00Z",
			}, "",
		},
		"no more than one": {nights, nil, 1, []string{"2026-09-01T23:00:00Z", "2026-09-02T02:00:00Z"}, "2026-09-02T02:00:00Z"},
		"a freeze": {
			nights, []Freeze{freeze}, 2, []string{"2026-09-01T23:00:00Z", "2026-09-02T02:00:00Z", "2026-09-03T00:30:00Z", "2026-09-03T02:00:00Z"},
			"2026-09-03T02:00:00Z",
		},
		"never": {[]Window{{Schedule: "0 0 30 2 *", Duration: time.Hour}}, nil, 9, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			calendar, err := Parse(test.windows, test.freezes)
			if err != nil {
				t.Fatal(err)
			}
			open, until := calendar.Open(from, to, test.most)
			var got []string
			for _, interval := range open {
				got = append(got, interval.From.Format(time.RFC3339), interval.To.Format(time.RFC3339))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			want := to
			if test.until != "" {
				want = instant(t, test.until)
			}
			if !until.Equal(want) {
				t.Errorf("known until %s, want %s", until, want)
			}
		})
	}
}
