package schedule

import (
	"math"
	"time"
)

// clock is what a clock on the wall shows, in seconds since it showed midnight of January 1, 1970. A day of it has 24 hours.
type clock int64

// forever is later than any time of a clock.
const forever clock = math.MaxInt64

// maxOffset is more than any clock is ahead of UTC, or behind: until 1844 it was almost 16 hours in Manila.
const maxOffset = 26 * 60 * 60

// zone is a time zone. It keeps the period that was looked up last, which in most zones is half a year.
type zone struct {
	location *time.Location
	period   period
}

// period is a time without changes of the clock, in seconds since 1970. Beyond the table of a time zone, the time package also ends a period with
// each year.
type period struct {
	start, end int64
	offset     int64
}

// at returns the period of an instant.
func (z *zone) at(instant int64) period {
	if z.period.start <= instant && instant < z.period.end {
		return z.period
	}
	t := time.Unix(instant, 0).In(z.location)
	_, offset := t.Zone()
	z.period = period{math.MinInt64, math.MaxInt64, int64(offset)}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		z.period.start = start.Unix()
	}
	switch {
	case end.IsZero():
	case end.Unix() > instant:
		z.period.end = end.Unix()
	default:
		// On the last day of a leap year the end is one day early (https://go.dev/issue/81583). The correct end is the end of the year, in UTC.
		z.period.end = time.Date(t.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return z.period
}

// first returns the first instant at which the clock shows a time or a later one.
func (z *zone) first(shown clock) int64 {
	for instant := int64(shown) - maxOffset; ; {
		p := z.at(instant)
		if reached := int64(shown) - p.offset; reached < p.end {
			return max(reached, instant)
		}
		instant = p.end
	}
}

// latest returns the latest time that the clock has shown up to an instant. The clock shows an earlier one after it was set back.
func (z *zone) latest(instant int64) clock {
	p := z.at(instant)
	shown := instant + p.offset
	for before := p.start; before > instant-2*maxOffset; {
		p := z.at(before - 1)
		shown = max(shown, before-1+p.offset)
		before = p.start
	}
	return clock(shown)
}

// unchangedUntil returns the last time that the clock shows before it is changed after an instant, or forever.
func (z *zone) unchangedUntil(instant int64) clock {
	p := z.at(instant)
	if p.end == math.MaxInt64 {
		return forever
	}
	return clock(p.end - 1 + p.offset)
}
