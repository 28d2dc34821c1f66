package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// fields is a schedule: sets of numbers, each a bit.
type fields struct {
	minutes, hours, daysOfMonth, months, daysOfWeek uint64
	// bothDays reports whether a day must be in daysOfMonth and in daysOfWeek, because one of them is a star, rather than in one of them.
	bothDays bool

	// hourGap, dayGap and weekGap are the longest pauses between two openings of the same hour, of the same day, and of all.
	// weekGap is zero if the pauses depend on more than the day of the week.
	hourGap, dayGap, weekGap time.Duration
}

// parser parses the five fields of cron, or a name for them such as @daily.
var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// parseFields parses a schedule. The schemas of the APIs reject what is rejected here before the parser, which panics for a time zone without
// fields, but objects may be older than their schema.
func parseFields(text string) (fields, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.Contains(text, "="):
		return fields{}, errors.New("it must be five fields of cron; set the time zone in timeZone")
	case strings.HasPrefix(text, "@every"):
		return fields{}, errors.New("@every says how often a window opens and not when; use five fields of cron")
	}
	schedule, err := parser.Parse(text)
	if err != nil {
		return fields{}, withHint(text, err)
	}
	parsed, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return fields{}, errors.New("it must be five fields of cron")
	}
	// The parser marks a star with the highest bit.
	const star = 1 << 63
	f := fields{
		minutes: parsed.Minute &^ star, hours: parsed.Hour &^ star, daysOfMonth: parsed.Dom &^ star, months: parsed.Month &^ star,
		daysOfWeek: parsed.Dow &^ star, bothDays: (parsed.Dom|parsed.Dow)&star != 0,
	}
	for _, values := range []uint64{f.minutes, f.hours, f.daysOfMonth, f.months, f.daysOfWeek} {
		if values == 0 {
			return fields{}, errors.New("one of its fields names no value")
		}
	}
	f.measure()
	return f, nil
}

// withHint adds to the error of a schedule how days of the week are written, if they are what is wrong.
func withHint(text string, err error) error {
	all := strings.Fields(text)
	if len(all) != 5 {
		return err
	}
	if _, invalid := parser.Parse("* * * * " + all[4]); invalid == nil {
		return err
	}
	return fmt.Errorf("%w; the fifth field is the day of the week, 0 to 6 or SUN to SAT: Sunday is 0, and Friday to Sunday is 5-6,0", err)
}

// measure computes the pauses.
func (f *fields) measure() {
	f.hourGap = time.Duration(longestGap(f.minutes)) * time.Minute
	nextHour := time.Duration(lowest(f.minutes)-highest(f.minutes)) * time.Minute
	f.dayGap = f.hourGap
	if gap := longestGap(f.hours); gap > 0 {
		f.dayGap = max(f.dayGap, time.Duration(gap)*time.Hour+nextHour)
	}
	const week, month, year = 1<<7 - 1, 1<<32 - 1<<1, 1<<13 - 1<<1
	days := uint64(0)
	switch {
	case f.months != year:
	case f.bothDays && f.daysOfMonth == month:
		days = f.daysOfWeek
	case !f.bothDays && (f.daysOfMonth == month || f.daysOfWeek == week):
		days = week
	}
	if days != 0 {
		// Of two weeks, each pause between two days is in one.
		nextDay := time.Duration(f.firstTime()-f.lastTime()) * time.Second
		f.weekGap = max(f.dayGap, time.Duration(longestGap(days|days<<7))*24*time.Hour+nextDay)
	}
}

// reaches returns until when a window stays open if it opens at a time of the schedule, each opening lasts for a duration, and the clock is not
// changed. It is the last opening of the hour or of the day, or forever. As reaches looks at the longest pauses only, the window may stay open for
// longer.
func (f *fields) reaches(from clock, duration time.Duration) clock {
	switch {
	case f.weekGap > 0 && f.weekGap <= duration:
		return forever
	case f.dayGap <= duration:
		return startOf(from, daySeconds) + f.lastTime()
	case f.hourGap <= duration:
		return startOf(from, hourSeconds) + timeOf(0, highest(f.minutes))
	default:
		return from
	}
}
