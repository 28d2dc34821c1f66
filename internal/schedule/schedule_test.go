package schedule

import (
	"strings"
	"testing"
	"time"
)

// testNow is a Wednesday.
var testNow = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// after returns an instant a duration after testNow; zero is never.
func after(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return testNow.Add(d)
}

func TestDecide_Windows(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		windows []Window
		open    bool
		changes time.Duration
	}{
		"none":                  {nil, true, 0},
		"opens at this moment":  {[]Window{{Schedule: "0 12 * * *", Duration: time.Hour}}, true, time.Hour},
		"opened before":         {[]Window{{Schedule: "30 11 * * *", Duration: time.Hour}}, true, 30 * time.Minute},
		"closes at this moment": {[]Window{{Schedule: "0 11 * * *", Duration: time.Hour}}, false, 23 * time.Hour},
		"opens later":           {[]Window{{Schedule: "0 13 * * 3", Duration: time.Hour}}, false, time.Hour},
		"in another zone":       {[]Window{{Schedule: "30 14 * * *", TimeZone: "Europe/Berlin", Duration: time.Hour}}, false, 30 * time.Minute},
		"one of two": {
			[]Window{{Schedule: "0 13 * * *", Duration: time.Hour}, {Schedule: "0 11 * * *", Duration: 90 * time.Minute}}, true, 30 * time.Minute,
		},
		"one after the other": {
			[]Window{{Schedule: "0 13 * * *", Duration: time.Hour}, {Schedule: "0 11 * * *", Duration: 2 * time.Hour}}, true, 2 * time.Hour,
		},
		"one inside the other": {
			[]Window{{Schedule: "0 10 * * *", Duration: 8 * time.Hour}, {Schedule: "0 11 * * *", Duration: 2 * time.Hour}}, true, 6 * time.Hour,
		},
		"longer than its own period":   {[]Window{{Schedule: "0 * * * *", Duration: 2 * time.Hour}}, true, 0},
		"as long as its own period":    {[]Window{{Schedule: "@daily", Duration: day}}, true, 0},
		"open over weekends":           {[]Window{{Schedule: "0 0 * * 1-5", Duration: 3 * day}}, true, 0},
		"not quite open over weekends": {[]Window{{Schedule: "0 0 * * 1-5", Duration: 3*day - time.Second}}, true, 4*day + 12*time.Hour - time.Second},
		"open in all years but leap years": {
			[]Window{{Schedule: "@yearly", Duration: 365 * day}}, true, (365+365+183)*day + 12*time.Hour,
		},
		"open in office hours":           {[]Window{{Schedule: "*/5 9-17 * * *", Duration: 5 * time.Minute}}, true, 6 * time.Hour},
		"a quarter of each hour":         {[]Window{{Schedule: "0-14 * * * *", Duration: time.Minute}}, true, 15 * time.Minute},
		"a part of a minute":             {[]Window{{Schedule: "* * * * *", Duration: 1500 * time.Millisecond}}, true, 1500 * time.Millisecond},
		"never":                          {[]Window{{Schedule: "0 0 30 2 *", Duration: time.Hour}}, false, 0},
		"one never, one later":           {[]Window{{Schedule: "0 0 30 2 *", Duration: 1}, {Schedule: "0 13 * * *", Duration: 1}}, false, time.Hour},
		"in a leap year":                 {[]Window{{Schedule: "0 12 29 2 *", Duration: time.Hour}}, false, (365 + 243) * day},
		"day of month or day of week":    {[]Window{{Schedule: "0 13 3 * 5", Duration: time.Hour}}, false, 2*day + time.Hour},
		"day of month or day of week, 2": {[]Window{{Schedule: "0 13 2 * 5", Duration: time.Hour}}, false, day + time.Hour},
		"shifts":                         {[]Window{{Schedule: "0 0,8,16 * * 1-6", Duration: 8 * time.Hour}}, true, 3*day + 12*time.Hour},
		"longest duration":               {[]Window{{Schedule: "0 12 * * *", Duration: 1<<63 - 1}}, true, 0},
		"exactly enough is left":         {[]Window{{Schedule: "0 11 * * *", Duration: 2 * time.Hour, MinRemaining: time.Hour}}, true, 1},
		"more than enough is left": {
			[]Window{{Schedule: "0 11 * * *", Duration: 2 * time.Hour, MinRemaining: 59 * time.Minute}}, true, time.Minute + 1,
		},
		"too little is left":     {[]Window{{Schedule: "0 11 * * *", Duration: 2 * time.Hour, MinRemaining: time.Hour + 1}}, false, 23 * time.Hour},
		"all of it must be left": {[]Window{{Schedule: "0 12 * * *", Duration: time.Hour, MinRemaining: time.Hour}}, true, 1},
		"it opens again before it closes": {
			[]Window{{Schedule: "0 11,13 * * *", Duration: 2 * time.Hour, MinRemaining: 90 * time.Minute}}, true, 90*time.Minute + 1,
		},
		"too little is left of each": {
			[]Window{
				{Schedule: "0 11 * * *", Duration: 2 * time.Hour, MinRemaining: 90 * time.Minute}, {Schedule: "0 13 * * *", Duration: time.Hour},
			},
			false, time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			state, err := Decide(test.windows, nil, testNow)
			if want := after(test.changes); err != nil || state.Open != test.open || !state.Changes.Equal(want) {
				t.Errorf("it is %+v, error %v; want open %v, and a change at %s", state, err, test.open, want)
			}
		})
	}
}

func TestDecide_Freezes(t *testing.T) {
	freeze := func(from, to time.Duration, reason string) Freeze {
		return Freeze{From: testNow.Add(from), To: testNow.Add(to), Reason: reason}
	}
	daily := []Window{{Schedule: "0 11 * * *", Duration: 2 * time.Hour}}
	for name, test := range map[string]struct {
		windows []Window
		freezes []Freeze
		open    bool
		changes time.Duration
		reason  string
	}{
		"over":                  {nil, []Freeze{freeze(-2, -1, "a")}, true, 0, ""},
		"ends at this moment":   {nil, []Freeze{freeze(-2, 0, "a")}, true, 0, ""},
		"begins at this moment": {nil, []Freeze{freeze(0, time.Hour, "a")}, false, time.Hour, "a"},
		"begins later":          {nil, []Freeze{freeze(time.Hour, 2*time.Hour, "a")}, true, time.Hour, ""},
		"the first begins":      {nil, []Freeze{freeze(2*time.Hour, 3*time.Hour, "a"), freeze(time.Hour, 4*time.Hour, "b")}, true, time.Hour, ""},
		"adjoining":             {nil, []Freeze{freeze(time.Hour, 2*time.Hour, "b"), freeze(-1, time.Hour, "a")}, false, 2 * time.Hour, "a"},
		"overlapping":           {nil, []Freeze{freeze(-1, time.Hour, "a"), freeze(1, 2*time.Hour, "b")}, false, 2 * time.Hour, "a"},
		"the last counts":       {nil, []Freeze{freeze(-1, time.Hour, "a"), freeze(-1, 2*time.Hour, "b")}, false, 2 * time.Hour, "b"},
		"begins in a window":    {daily, []Freeze{freeze(time.Minute, time.Hour, "a")}, true, time.Minute, ""},
		"ends in a window":      {daily, []Freeze{freeze(-1, time.Minute, "a")}, false, time.Minute, "a"},
		"ends with a window":    {daily, []Freeze{freeze(-1, time.Hour, "a")}, false, 23 * time.Hour, "a"},
		"begins with a window":  {daily, []Freeze{freeze(23*time.Hour, 30*time.Hour, "a")}, true, time.Hour, ""},
		"covers a window": {
			daily, []Freeze{freeze(-1, time.Minute, "a"), freeze(time.Minute, 25*time.Hour, "b")}, false, 47 * time.Hour, "a",
		},
		"begins after the window": {daily, []Freeze{freeze(2*time.Hour, 24*time.Hour, "a")}, true, time.Hour, ""},
		"of a calendar that never opens": {
			[]Window{{Schedule: "0 0 30 2 *", Duration: time.Hour}}, []Freeze{freeze(-1, time.Hour, "a")}, false, 0, "a",
		},
		"of a calendar that is always open": {
			[]Window{{Schedule: "* * * * *", Duration: time.Minute}}, []Freeze{freeze(-1, time.Hour, "a")}, false, time.Hour, "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			state, err := Decide(test.windows, test.freezes, testNow)
			if want := after(test.changes); err != nil || state.Open != test.open || !state.Changes.Equal(want) {
				t.Errorf("it is %+v, error %v; want open %v, and a change at %s", state, err, test.open, want)
			}
			reason := ""
			if state.Freeze != nil {
				reason = state.Freeze.Reason
			}
			if reason != test.reason {
				t.Errorf("the freeze in effect is %q, want %q", reason, test.reason)
			}
		})
	}
}

func TestDecide_Ending(t *testing.T) {
	ending := Window{Schedule: "0 11 * * *", Duration: 90 * time.Minute, MinRemaining: time.Hour}
	for name, test := range map[string]struct {
		windows []Window
		freezes []Freeze
		want    bool
	}{
		"too little is left":            {[]Window{ending}, nil, true},
		"too little is left of the one": {[]Window{{Schedule: "0 14 * * *", Duration: 1}, ending}, nil, true},
		"the other one is open":         {[]Window{{Schedule: "0 12 * * *", Duration: 1}, ending}, nil, false},
		"closed":                        {[]Window{{Schedule: "0 14 * * *", Duration: 1}}, nil, false},
		"frozen":                        {[]Window{ending}, []Freeze{{From: testNow, To: testNow.Add(1)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if state, err := Decide(test.windows, test.freezes, testNow); err != nil || state.Ending != test.want {
				t.Errorf("it is %+v, error %v", state, err)
			}
		})
	}
}

func TestDecide_Invalid(t *testing.T) {
	valid := Window{Schedule: "@daily", Duration: time.Hour}
	for name, test := range map[string]struct {
		window Window
		want   string
	}{
		"schedule":         {Window{Schedule: "soon", Duration: time.Hour}, `schedule "soon": expected exactly 5 fields, found 1: [soon]`},
		"time zone":        {Window{Schedule: "@daily", TimeZone: "Mars/Olympus", Duration: time.Hour}, "timeZone: unknown time zone Mars/Olympus"},
		"path of a zone":   {Window{Schedule: "@daily", TimeZone: "../UTC", Duration: time.Hour}, "timeZone: time: invalid location name"},
		"no duration":      {Window{Schedule: "@daily"}, "duration 0s: it must be open for some time"},
		"minRemaining":     {Window{Schedule: "@daily", Duration: 1, MinRemaining: 2}, "minRemaining 2ns: it must not be longer than duration 1ns"},
		"negative minimum": {Window{Schedule: "@daily", Duration: 1, MinRemaining: -1}, "minRemaining -1ns: it must not be negative"},
	} {
		t.Run(name, func(t *testing.T) {
			state, err := Decide([]Window{valid, test.window}, nil, testNow)
			if err == nil || err.Error() != "windows[1]: "+test.want {
				t.Errorf("the error is %v, want %s", err, test.want)
			}
			if state != (State{}) {
				t.Errorf("and the state %+v", state)
			}
		})
	}
	freezes := []Freeze{{From: testNow, To: testNow.Add(1)}, {From: testNow, To: testNow}}
	if state, err := Decide(nil, freezes, testNow); err == nil || !strings.HasPrefix(err.Error(), "freezes[1]: ") || state.Open {
		t.Errorf("with an empty freeze it is %+v, error %v", state, err)
	}
}

// hostileSchedules are what the schemas of the APIs refuse, or have not always refused.
var hostileSchedules = []string{
	"", " ", "TZ=UTC", "TZ=", "CRON_TZ=UTC", "CRON_TZ=Europe/Berlin 0 1 * * *", "TZ=UTC 0 1 * * *", " TZ=UTC", "\tTZ=UTC", "@", "@every", "@every 1h",
	" @every 1h", "@every -1h", "@reboot", "@daily 0", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
	"*/0 * * * *", "5-1 * * * *", "-1 * * * *", "*/-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", ", * * * *", "99999999999999999999 * * * *",
	"*/99999999999999999999 * * * *", "\x00 * * * *", "０ 0 * * *", "soon",
}

func TestDecide_HostileSchedule(t *testing.T) {
	for _, schedule := range hostileSchedules {
		for _, zone := range []string{"", "UTC", "Europe/Berlin"} {
			if state, err := Decide([]Window{{Schedule: schedule, TimeZone: zone, Duration: time.Hour}}, nil, testNow); err == nil {
				t.Errorf("schedule %q in zone %q is accepted: %+v", schedule, zone, state)
			}
		}
	}
}

func TestDecide_AcceptedSchedule(t *testing.T) {
	for _, schedule := range []string{
		"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", " 0 0 * * * ", "0\t0 * * *", "? ? ? ? ?",
		"*/5 0-3,22 1,15 jan-mar mon", "0 0 * JAN-Dec SUN,sat", "5/15 * * * *", "59 23 31 12 ?", "0,0 0 1-31/2 */3 0-6", ",5 0 * * *",
	} {
		state, err := Decide([]Window{{Schedule: schedule, Duration: time.Minute}}, nil, testNow)
		if err != nil || state.Changes.IsZero() && !state.Open {
			t.Errorf("schedule %q: %+v, error %v", schedule, state, err)
		}
	}
}

// TestParse_HintsAtDays: the error says how days of the week are written where they are what is wrong.
func TestParse_HintsAtDays(t *testing.T) {
	for schedule, want := range map[string]bool{"0 2 * * 7": true, "0 2 * * FRI-SUN": true, "0 2 * * Monday": true, "0 25 * * 1-5": false} {
		_, err := Parse([]Window{{Schedule: schedule, Duration: time.Hour}}, nil)
		if err == nil || strings.Contains(err.Error(), "Sunday is 0") != want {
			t.Errorf("schedule %q: %v", schedule, err)
		}
	}
}
