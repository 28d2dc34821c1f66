package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

func TestWindows(t *testing.T) {
	window := func(schedule, zone string, d time.Duration) v1alpha1.Window {
		return v1alpha1.Window{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: d}}
	}
	// The test's time is a Wednesday, 12:00 in UTC and 14:00 in Berlin.
	for name, c := range map[string]struct {
		windows []v1alpha1.Window
		open    bool
		changes time.Duration
		fails   bool
	}{
		"none":                  {nil, true, 0, false},
		"opens at this moment":  {[]v1alpha1.Window{window("0 12 * * *", "", time.Hour)}, true, time.Hour, false},
		"opened before":         {[]v1alpha1.Window{window("30 11 * * *", "", time.Hour)}, true, 30 * time.Minute, false},
		"closes at this moment": {[]v1alpha1.Window{window("0 11 * * *", "", time.Hour)}, false, 23 * time.Hour, false},
		"opens later":           {[]v1alpha1.Window{window("0 13 * * 3", "", time.Hour)}, false, time.Hour, false},
		"in another zone":       {[]v1alpha1.Window{window("30 14 * * *", "Europe/Berlin", time.Hour)}, false, 30 * time.Minute, false},
		"one of two": {
			[]v1alpha1.Window{window("0 13 * * *", "", time.Hour), window("0 11 * * *", "", 2*time.Hour)}, true, time.Hour, false,
		},
		"a schedule that is none":    {[]v1alpha1.Window{window("soon", "", time.Hour)}, false, 0, true},
		"a zone that is none":        {[]v1alpha1.Window{window("0 13 * * *", "Mars/Olympus", time.Hour)}, false, 0, true},
		"open for no time":           {[]v1alpha1.Window{window("0 13 * * *", "", 0)}, false, 0, true},
		"longer than its own period": {[]v1alpha1.Window{window("0 * * * *", "", 2*time.Hour)}, true, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			open, changes, err := Windows(c.windows, testTime)
			if open != c.open || (err != nil) != c.fails {
				t.Fatalf("open %v, error %v", open, err)
			}
			if c.changes == 0 != changes.IsZero() || c.changes != 0 && !changes.Equal(testTime.Add(c.changes)) {
				t.Errorf("it changes at %s", changes)
			}
		})
	}
}

// hostileSchedules are what the schema of MutexRunConfig refuses, or has not always refused.
var hostileSchedules = []string{
	"", " ", "TZ=UTC", "TZ=", "CRON_TZ=UTC", "CRON_TZ=Europe/Berlin 0 1 * * *", "TZ=UTC 0 1 * * *", " TZ=UTC", "\tTZ=UTC", "@", "@every", "@every 1h",
	" @every 1h", "@every -1h", "@reboot", "@daily 0", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8",
	"*/0 * * * *", "5-1 * * * *", "-1 * * * *", "*/-1 * * * *", "1-2-3 * * * *", "1/2/3 * * * *", ", * * * *", "99999999999999999999 * * * *",
	"*/99999999999999999999 * * * *", "\x00 * * * *", "０ 0 * * *", "soon",
}

func TestWindows_HostileSchedule(t *testing.T) {
	for _, schedule := range hostileSchedules {
		for _, zone := range []string{"", "UTC", "Europe/Berlin"} {
			windows := []v1alpha1.Window{{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: time.Hour}}}
			if open, changes, err := Windows(windows, testTime); err == nil {
				t.Errorf("schedule %q in zone %q is taken: open %v, changes at %s", schedule, zone, open, changes)
			}
		}
	}
}

// TestResolve_EndingIgnoresWindows: the windows of a run that ends are not evaluated, so they cannot be a problem.
func TestResolve_EndingIgnoresWindows(t *testing.T) {
	for _, schedule := range hostileSchedules {
		run := &v1alpha1.MutexRunConfig{}
		run.Spec.Windows = []v1alpha1.Window{{Schedule: schedule, TimeZone: "Mars/Olympus"}}
		for _, fault := range Resolve(&Input{Config: run, Ending: true, Now: testTime}).Problems {
			if strings.Contains(fault, "windows") {
				t.Errorf("schedule %q: %s", schedule, fault)
			}
		}
	}
}

// FuzzWindows: any schedule, time zone and duration is accepted or rejected without a panic, and the next change is in the future.
func FuzzWindows(f *testing.F) {
	for _, schedule := range append(hostileSchedules, "0 12 * * *", "*/5 0-3,22 1,15 jan-mar mon", "@daily", "0 0 30 2 *", "59 23 31 12 ?") {
		f.Add(schedule, "", int64(time.Hour), int64(0))
		f.Add(schedule, "Pacific/Apia", int64(math.MaxInt64), int64(math.MinInt32))
		f.Add(schedule, "../UTC", int64(-1), int64(math.MaxInt32))
	}
	f.Fuzz(func(t *testing.T, schedule, zone string, duration, offset int64) {
		// Any second of the 200 years around the time of the test.
		now := testTime.Add(time.Duration(offset%(100*365*24*3600)) * time.Second)
		windows := []v1alpha1.Window{{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: time.Duration(duration)}}}
		open, changes, err := Windows(windows, now)
		switch {
		case err != nil && (open || !changes.IsZero()):
			t.Errorf("refused, and open %v until %s", open, changes)
		case open && changes.IsZero():
			t.Error("open for ever")
		case !changes.IsZero() && !changes.After(now):
			t.Errorf("at %s the next change is at %s", now, changes)
		}
	})
}
