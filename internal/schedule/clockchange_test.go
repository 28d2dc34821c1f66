package schedule

import (
	"testing"
	"time"
)

// opens are the openings of a window in the order of time, found as a caller finds them: change by change.
func opens(t *testing.T, schedule, zone, from string, number int) []string {
	t.Helper()
	calendar, err := Parse([]Window{{Schedule: schedule, TimeZone: zone, Duration: time.Second}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	now := instant(t, from)
	for len(found) < number {
		state := calendar.At(now)
		if state.Open {
			found = append(found, now.In(calendar.windows[0].location).Format(layout))
		}
		if now = state.Changes; now.IsZero() {
			break
		}
	}
	return found
}

const layout = "2006-01-02 15:04 -07:00"

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestCalendar_OpensWhenClocksChange(t *testing.T) {
	for name, test := range map[string]struct {
		schedule, zone, from string
		want                 []string
	}{
		"skipped hour: opens after the gap": {
			"30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z",
			[]string{"2026-03-28 02:30 +01:00", "2026-03-29 03:00 +02:00", "2026-03-30 02:30 +02:00"},
		},
		"repeated hour: opens once": {
			"30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z",
			[]string{"2026-10-24 02:30 +02:00", "2026-10-25 02:30 +02:00", "2026-10-26 02:30 +01:00"},
		},
		"several times in the skipped hour: opens once": {
			"*/20 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z",
			[]string{"2026-03-29 03:00 +02:00", "2026-03-29 03:20 +02:00", "2026-03-29 03:40 +02:00", "2026-03-30 02:00 +02:00"},
		},
		"every half hour: pauses in the repeated hour": {
			"*/30 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z",
			[]string{"2026-10-25 01:30 +02:00", "2026-10-25 02:00 +02:00", "2026-10-25 02:30 +02:00", "2026-10-25 03:00 +01:00"},
		},
		"first day of the month, in the skipped hour of another day": {
			"30 2 1 * *", "Europe/Berlin", "2026-03-02T00:00:00Z", []string{"2026-04-01 02:30 +02:00"},
		},
		"New York skips an hour": {
			"15 2 * * 0", "America/New_York", "2026-03-02T00:00:00Z",
			[]string{"2026-03-08 03:00 -04:00", "2026-03-15 02:15 -04:00"},
		},
		"New York repeats an hour": {
			"15 1 * * 0", "America/New_York", "2026-10-26T00:00:00Z",
			[]string{"2026-11-01 01:15 -04:00", "2026-11-08 01:15 -05:00"},
		},
		"the end of the repeated hour is not repeated": {
			"0 2 * * 0", "America/New_York", "2026-10-26T00:00:00Z",
			[]string{"2026-11-01 02:00 -05:00", "2026-11-08 02:00 -05:00"},
		},
		"Lord Howe skips half an hour": {
			"0,15,30 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:00:00Z",
			[]string{"2026-10-04 02:30 +11:00", "2026-10-05 02:00 +11:00", "2026-10-05 02:15 +11:00", "2026-10-05 02:30 +11:00"},
		},
		"Lord Howe repeats half an hour": {
			"15,45 1 * * *", "Australia/Lord_Howe", "2026-04-04T13:00:00Z",
			[]string{"2026-04-05 01:15 +11:00", "2026-04-05 01:45 +11:00", "2026-04-06 01:15 +10:30", "2026-04-06 01:45 +10:30"},
		},
		"Apia skips a day": {
			"0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z",
			[]string{"2011-12-29 12:00 -10:00", "2011-12-31 00:00 +14:00", "2011-12-31 12:00 +14:00"},
		},
		"Apia skips a day of the week": {
			"0 12 * * 5", "Pacific/Apia", "2011-12-29T00:00:00Z", []string{"2011-12-31 00:00 +14:00", "2012-01-06 12:00 +14:00"},
		},
		"Kwajalein repeats a day": {
			"0 12 30 9 *", "Pacific/Kwajalein", "1969-09-01T00:00:00Z", []string{"1969-09-30 12:00 +11:00", "1970-09-30 12:00 -12:00"},
		},
		"Casablanca repeats an hour before Ramadan": {
			"30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00:00Z", []string{"2026-02-15 02:30 +01:00", "2026-02-16 02:30 +00:00"},
		},
		"Casablanca skips an hour after Ramadan": {
			"30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00:00Z", []string{"2026-03-22 03:00 +01:00", "2026-03-23 02:30 +01:00"},
		},
		"São Paulo skips midnight": {
			"@daily", "America/Sao_Paulo", "2018-11-03T03:00:00Z",
			[]string{"2018-11-03 00:00 -03:00", "2018-11-04 01:00 -02:00", "2018-11-05 00:00 -02:00"},
		},
		"São Paulo repeats the hour before midnight": {
			"30 23 * * *", "America/Sao_Paulo", "2018-02-17T02:00:00Z", []string{"2018-02-17 23:30 -02:00", "2018-02-18 23:30 -03:00"},
		},
		"Kathmandu moves by a quarter": {
			"5 0 1 1 *", "Asia/Kathmandu", "1984-01-02T00:00:00Z",
			[]string{"1985-01-01 00:05 +05:30", "1986-01-01 00:15 +05:45", "1987-01-01 00:05 +05:45"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := opens(t, test.schedule, test.zone, test.from, len(test.want))
			if len(got) != len(test.want) {
				t.Fatalf("it opens at %q", got)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("opening %d is %s, want %s", i, got[i], test.want[i])
				}
			}
		})
	}
}

func TestCalendar_DurationIsElapsedTime(t *testing.T) {
	for name, test := range map[string]struct{ schedule, zone, from, closes string }{
		"over a skipped hour":          {"0 1 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T03:00:00Z"},
		"over a repeated hour":         {"0 1 * * *", "Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-25T02:00:00Z"},
		"from the first of two times":  {"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T03:30:00Z"},
		"from the end of a gap":        {"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T04:00:00Z"},
		"from the end of a day's gap":  {"@daily", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T13:00:00Z"},
		"over a skipped half hour":     {"45 1 * * *", "Australia/Lord_Howe", "2026-10-03T15:15:00Z", "2026-10-03T18:15:00Z"},
		"in a year without zone rules": {"0 1 * * *", "Asia/Kathmandu", "2026-01-01T19:15:00Z", "2026-01-01T22:15:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			windows := []Window{{Schedule: test.schedule, TimeZone: test.zone, Duration: 3 * time.Hour}}
			from, closes := instant(t, test.from), instant(t, test.closes)
			if before, err := Decide(windows, nil, from.Add(-1)); err != nil || before.Open || !before.Changes.Equal(from) {
				t.Errorf("before it is %+v, error %v", before, err)
			}
			for _, now := range []time.Time{from, closes.Add(-1)} {
				if state, err := Decide(windows, nil, now); err != nil || !state.Open || !state.Changes.Equal(closes) {
					t.Errorf("at %s it is %+v, error %v", now, state, err)
				}
			}
			if after, _ := Decide(windows, nil, closes); after.Open {
				t.Errorf("at its end it is %+v", after)
			}
		})
	}
}

// TestCalendar_OpenInRepeatedHour: what the clock shows is before the opening once more.
func TestCalendar_OpenInRepeatedHour(t *testing.T) {
	windows := []Window{{Schedule: "30 2 * * *", TimeZone: "Europe/Berlin", Duration: time.Hour}}
	for at, want := range map[string]State{
		"2026-10-25T00:29:59Z": {Open: false, Changes: instant(t, "2026-10-25T00:30:00Z")}, // 02:29:59
		"2026-10-25T01:00:00Z": {Open: true, Changes: instant(t, "2026-10-25T01:30:00Z")},  // 02:00 for the second time
		"2026-10-25T01:29:59Z": {Open: true, Changes: instant(t, "2026-10-25T01:30:00Z")},  // 02:29:59 for the second time
		"2026-10-25T01:30:00Z": {Open: false, Changes: instant(t, "2026-10-26T01:30:00Z")}, // 02:30 for the second time
	} {
		if state, err := Decide(windows, nil, instant(t, at)); err != nil || state != want {
			t.Errorf("at %s it is %+v, error %v; want %+v", at, state, err, want)
		}
	}
}

func TestCalendar_OpenAllDayClosesWhenTheClockIsSetBack(t *testing.T) {
	windows := []Window{{Schedule: "@daily", TimeZone: "Europe/Berlin", Duration: 24 * time.Hour}}
	state, err := Decide(windows, nil, instant(t, "2026-01-15T12:00:00Z"))
	if want := instant(t, "2026-10-25T22:00:00Z"); err != nil || !state.Open || !state.Changes.Equal(want) {
		t.Errorf("it is %+v, error %v; want that it closes at %s", state, err, want)
	}
	windows[0].Duration += time.Hour
	if state, err = Decide(windows, nil, instant(t, "2026-01-15T12:00:00Z")); err != nil || !state.Open || !state.Changes.IsZero() {
		t.Errorf("with another hour it is %+v, error %v; want that it never closes", state, err)
	}
}
