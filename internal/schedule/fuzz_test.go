package schedule

import (
	"math"
	"testing"
	"time"
)

// FuzzDecide: any window and freeze is accepted or rejected without a panic and soon, and the next change is one.
func FuzzDecide(f *testing.F) {
	for _, schedule := range append(hostileSchedules,
		"0 12 * * *", "*/5 0-3,22 1,15 jan-mar mon", "@daily", "0 0 30 2 *", "0 0 29 2 *", "59 23 31 12 ?", "* * * * *") {
		f.Add(schedule, "", int64(time.Hour), int64(0), int64(0), int64(60))
		f.Add(schedule, "Pacific/Apia", int64(math.MaxInt64), int64(time.Minute), int64(math.MinInt32), int64(-60))
		f.Add(schedule, "Europe/Berlin", int64(time.Minute), int64(time.Minute), int64(1<<31), int64(1<<40))
		f.Add(schedule, "../UTC", int64(-1), int64(-1), int64(math.MaxInt32), int64(0))
	}
	f.Fuzz(func(t *testing.T, schedule, zone string, duration, minRemaining, offset, freeze int64) {
		if zone == "Local" {
			t.Skip("it depends on the machine")
		}
		// Any second of the 200 years around the time of the test.
		const century = 100 * 365 * 24 * 3600
		now := testNow.Add(time.Duration(offset%century) * time.Second)
		windows := []Window{
			{Schedule: schedule, TimeZone: zone, Duration: time.Duration(duration), MinRemaining: time.Duration(minRemaining)},
			{Schedule: "0 12 * * 1", TimeZone: "Australia/Lord_Howe", Duration: time.Hour},
		}
		freezes := []Freeze{{From: now.Add(time.Duration(freeze%century) * time.Second), To: now.Add(time.Duration(freeze%century+3600) * time.Second)}}
		for number := range windows {
			started := time.Now()
			state, err := Decide(windows[:number+1], freezes, now)
			if took := time.Since(started); took > 10*time.Second {
				t.Errorf("it takes %s", took)
			}
			checkState(t, windows[:number+1], freezes, now, state, err)
		}
	})
}

// checkState checks that a state lasts until it changes.
func checkState(t *testing.T, windows []Window, freezes []Freeze, now time.Time, state State, err error) {
	if err != nil {
		if state != (State{}) {
			t.Errorf("refused, and %+v", state)
		}
		return
	}
	if state.Freeze != nil && state.Open || state.Ending && state.Open {
		t.Errorf("at %s it is %+v", now, state)
	}
	if state.Changes.IsZero() {
		return
	}
	if !state.Changes.After(now) {
		t.Fatalf("at %s the next change is at %s", now, state.Changes)
	}
	if state.Open && state.Changes.After(now.AddDate(10, 0, 0)) {
		return // windows that relieve one another
	}
	pause := state.Changes.Sub(now)
	for _, since := range []time.Duration{pause / 7, pause / 2, pause / 7 * 6, pause - 1} {
		if before, _ := Decide(windows, freezes, now.Add(since)); before.Open != state.Open || !before.Changes.Equal(state.Changes) {
			t.Errorf("at %s it is %+v, and at %s, before the change, %+v", now, state, now.Add(since), before)
		}
	}
	if after, _ := Decide(windows, freezes, state.Changes); after.Open == state.Open {
		t.Errorf("at %s it is %+v, and at the change %+v", now, state, after)
	}
}

// TestDecide_SlowestIsBounded: the searches that look furthest take milliseconds.
func TestDecide_SlowestIsBounded(t *testing.T) {
	for name, window := range map[string]Window{
		"never":                          {Schedule: "0 0 30 2 *", Duration: time.Hour},
		"open for ever":                  {Schedule: "* * * * *", Duration: time.Minute},
		"open for ever, of two days":     {Schedule: "* * 1-31/2 * 0-6/2", Duration: 7 * 24 * time.Hour},
		"open for ever, of each weekday": {Schedule: "* * * * 1-5", Duration: 7 * 24 * time.Hour},
		"once in eight years":            {Schedule: "* * 29 2 *", Duration: time.Minute},
		"all but one minute a day":       {Schedule: "0-58 * * * *", Duration: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			windows := make([]Window, 16)
			for i := range windows {
				windows[i] = window
				windows[i].TimeZone = "Australia/Lord_Howe"
			}
			started := time.Now()
			if _, err := Decide(windows, nil, time.Date(2096, time.March, 1, 0, 0, 0, 0, time.UTC)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(started); took > 10*time.Second {
				t.Errorf("it takes %s", took)
			}
		})
	}
}
