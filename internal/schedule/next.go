package schedule

import (
	"math/bits"
	"time"
)

// maxMonths is how many months are searched for a day: February 29 of 2096 is followed by February 29 of 2104.
const maxMonths = 9 * 12

const (
	minuteSeconds = 60
	hourSeconds   = 60 * minuteSeconds
	daySeconds    = 24 * hourSeconds
)

// next returns the first time of the schedule at or after a time.
func (f *fields) next(from clock) (clock, bool) {
	from = startOf(from+minuteSeconds-1, minuteSeconds)
	midnight := startOf(from, daySeconds)
	m, day := monthOf(midnight)
	days := f.days(m)
	if days&(1<<day) != 0 {
		if time, found := f.nextTime(from - midnight); found {
			return midnight + time, true
		}
	}
	days = days >> (day + 1) << (day + 1)
	for range maxMonths {
		if days != 0 {
			return m.day(lowest(days)) + f.firstTime(), true
		}
		m = m.next()
		days = f.days(m)
	}
	return 0, false
}

// previous returns the last time of the schedule at or before a time.
func (f *fields) previous(from clock) (clock, bool) {
	midnight := startOf(from, daySeconds)
	m, day := monthOf(midnight)
	days := f.days(m)
	if days&(1<<day) != 0 {
		if time, found := f.previousTime(from - midnight); found {
			return midnight + time, true
		}
	}
	days &= 1<<day - 1
	for range maxMonths {
		if days != 0 {
			return m.day(highest(days)) + f.lastTime(), true
		}
		m = m.previous()
		days = f.days(m)
	}
	return 0, false
}

// firstTime returns the first time of a day of the schedule.
func (f *fields) firstTime() clock {
	return timeOf(lowest(f.hours), lowest(f.minutes))
}

// lastTime returns the last time of a day of the schedule.
func (f *fields) lastTime() clock {
	return timeOf(highest(f.hours), highest(f.minutes))
}

// nextTime returns the first time of the schedule at or after a time, on the same day of the schedule.
func (f *fields) nextTime(from clock) (clock, bool) {
	hour, minute := from/hourSeconds, from%hourSeconds/minuteSeconds
	if f.hours&(1<<hour) != 0 {
		if rest := f.minutes >> minute << minute; rest != 0 {
			return timeOf(int(hour), lowest(rest)), true
		}
	}
	rest := f.hours >> (hour + 1) << (hour + 1)
	if rest == 0 {
		return 0, false
	}
	return timeOf(lowest(rest), lowest(f.minutes)), true
}

// previousTime returns the last time of the schedule at or before a time, on the same day of the schedule.
func (f *fields) previousTime(from clock) (clock, bool) {
	hour, minute := from/hourSeconds, from%hourSeconds/minuteSeconds
	if f.hours&(1<<hour) != 0 {
		if rest := f.minutes & (2<<minute - 1); rest != 0 {
			return timeOf(int(hour), highest(rest)), true
		}
	}
	rest := f.hours & (1<<hour - 1)
	if rest == 0 {
		return 0, false
	}
	return timeOf(highest(rest), highest(f.minutes)), true
}

// days returns the days of a month that are days of the schedule.
func (f *fields) days(m month) uint64 {
	if f.months&(1<<m.month) == 0 {
		return 0
	}
	// January 1, 1970 was a Thursday. The set of days of the week is repeated, starting with the weekday of the month's first day.
	weekday := modulo(m.first/daySeconds+4, 7)
	var weeks uint64
	for start := clock(0); start < 42; start += 7 {
		weeks |= f.daysOfWeek << start
	}
	inWeek, inMonth := weeks>>weekday<<1, f.daysOfMonth
	all := uint64(2)<<m.length() - 2
	if f.bothDays {
		return inWeek & inMonth & all
	}
	return (inWeek | inMonth) & all
}

// month is a month of the clock, and when its first day begins.
type month struct {
	year  int
	month time.Month
	first clock
}

// monthOf returns the month and the day of a midnight.
func monthOf(midnight clock) (m month, day int) {
	m.year, m.month, day = time.Unix(int64(midnight), 0).UTC().Date()
	m.first = midnight - clock(day-1)*daySeconds
	return m, day
}

// day returns the midnight at which a day begins.
func (m month) day(day int) clock {
	return m.first + clock(day-1)*daySeconds
}

// length returns the number of days.
func (m month) length() int {
	switch m.month {
	case time.February:
		if m.year%4 == 0 && (m.year%100 != 0 || m.year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	default:
		return 31
	}
}

func (m month) next() month {
	next := month{m.year, m.month + 1, m.day(m.length() + 1)}
	if next.month > time.December {
		next.year, next.month = m.year+1, time.January
	}
	return next
}

func (m month) previous() month {
	previous := month{m.year, m.month - 1, 0}
	if previous.month < time.January {
		previous.year, previous.month = m.year-1, time.December
	}
	previous.first = m.first - clock(previous.length())*daySeconds
	return previous
}

// timeOf returns a time of January 1, 1970.
func timeOf(hour, minute int) clock {
	return clock(hour)*hourSeconds + clock(minute)*minuteSeconds
}

// startOf returns the start of the minute, hour or day of a time, given the length of one.
func startOf(c, length clock) clock {
	return c - modulo(c, length)
}

// modulo returns the remainder of a division, which is not negative.
func modulo(c, divisor clock) clock {
	if c %= divisor; c < 0 {
		c += divisor
	}
	return c
}

// lowest returns the lowest number of a set.
func lowest(set uint64) int {
	return bits.TrailingZeros64(set)
}

// highest returns the highest number of a set.
func highest(set uint64) int {
	return bits.Len64(set) - 1
}

// longestGap returns the longest distance of two neighbors in a set; zero if it has one number.
func longestGap(set uint64) int {
	longest := 0
	for previous := lowest(set); set&(set-1) != 0; {
		set &= set - 1
		longest, previous = max(longest, lowest(set)-previous), lowest(set)
	}
	return longest
}
