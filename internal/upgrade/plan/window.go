package plan

import (
	"fmt"
	"time"
	_ "time/tzdata" // the image has no file but the program

	"github.com/robfig/cron/v3"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// Windows tells whether nodes may be begun now, and when that changes next; zero for never. Without windows it is always so. It fails for a
// window that cannot be read.
func Windows(windows []v1alpha1.Window, now time.Time) (open bool, changes time.Time, err error) {
	if len(windows) == 0 {
		return true, time.Time{}, nil
	}
	for i := range windows {
		opened, next, err := window(&windows[i], now)
		if err != nil {
			return false, time.Time{}, fmt.Errorf("spec.windows[%d]: %w", i, err)
		}
		open = open || opened
		if changes.IsZero() || !next.IsZero() && next.Before(changes) {
			changes = next
		}
	}
	return open, changes, nil
}

// window tells whether one window is open, and when that may change.
func window(w *v1alpha1.Window, now time.Time) (open bool, changes time.Time, err error) {
	text := w.Schedule
	if w.TimeZone != "" {
		if _, err := time.LoadLocation(w.TimeZone); err != nil {
			return false, time.Time{}, fmt.Errorf("timeZone: %w", err)
		}
		text = "CRON_TZ=" + w.TimeZone + " " + text
	}
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("schedule %q: %w", w.Schedule, err)
	}
	if w.Duration.Duration <= 0 {
		return false, time.Time{}, fmt.Errorf("duration %s: it must be open for some time", w.Duration.Duration)
	}
	now = now.UTC()
	// What has opened within the last duration is open still.
	if opened := schedule.Next(now.Add(-w.Duration.Duration)); !opened.IsZero() && !opened.After(now) {
		return true, opened.Add(w.Duration.Duration), nil
	}
	return false, schedule.Next(now), nil
}
