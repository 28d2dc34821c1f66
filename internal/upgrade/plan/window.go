package plan

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the image contains no other file than the program

	"github.com/robfig/cron/v3"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// resolveWait determines why no node may be started.
func (r *Run) resolveWait() {
	open, changes, err := Windows(r.Config.Spec.Windows, r.Now)
	if err != nil {
		r.problem("%v", err)
		return
	}
	r.wakeAt(changes)
	switch {
	case !r.Completed:
		r.Wait = "the control plane does not have version " + r.Desired + " yet"
	case r.Canary != nil && r.Canary.Spec.Paused:
		r.Wait = "the canary MachineConfigPool " + r.Canary.Name + " is paused"
	case !open:
		r.Wait = "no maintenance window is open"
		if !changes.IsZero() {
			r.Wait += "; the next one opens at " + changes.UTC().Format("2006-01-02T15:04Z")
		}
	}
}

// Windows reports whether nodes may be started now, and returns when that changes next; zero is never. Without windows they always may. It fails
// for an invalid window.
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

// window reports whether one window is open, and returns when that may change.
func window(w *v1alpha1.Window, now time.Time) (open bool, changes time.Time, err error) {
	schedule, err := parseSchedule(w.Schedule)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("schedule %q: %w", w.Schedule, err)
	}
	if schedule.Location, err = time.LoadLocation(w.TimeZone); err != nil {
		return false, time.Time{}, fmt.Errorf("timeZone: %w", err)
	}
	duration := bounded.Duration(w.Duration.Duration)
	if duration <= 0 {
		return false, time.Time{}, fmt.Errorf("duration %s: it must be open for some time", duration)
	}
	now = now.UTC()
	// A window that has opened within the last duration is still open.
	if opened := schedule.Next(now.Add(-duration)); !opened.IsZero() && !opened.After(now) {
		return true, opened.Add(duration), nil
	}
	return false, schedule.Next(now), nil
}

// scheduleParser parses the five fields of cron, or a name for them such as @daily.
var scheduleParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// parseSchedule parses the schedule of a window. The schema of MutexRunConfig rejects what is rejected here before the parser, which
// panics for a time zone without fields, but objects may be older than the schema.
func parseSchedule(text string) (*cron.SpecSchedule, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.Contains(text, "="):
		return nil, errors.New("it must be five fields of cron; set the time zone in timeZone")
	case strings.HasPrefix(text, "@every"):
		return nil, errors.New("@every says how often a window opens and not when; use five fields of cron")
	}
	schedule, err := scheduleParser.Parse(text)
	if err != nil {
		return nil, err
	}
	fields, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("it must be five fields of cron")
	}
	for _, values := range []uint64{fields.Minute, fields.Hour, fields.Dom, fields.Month, fields.Dow} {
		if values == 0 {
			return nil, errors.New("one of its fields names no value")
		}
	}
	return fields, nil
}
