package schedule

import (
	"fmt"
	"time"
	_ "time/tzdata" // the image contains no other file than the program

	"github.com/drover-io/drover/internal/bounded"
)

// horizon is how far the end of windows is searched that open again before they close, in seconds. February 29 comes every eight years at least.
const horizon = 10 * 366 * 24 * 60 * 60

// window is a parsed Window.
type window struct {
	fields       fields
	location     *time.Location
	duration     time.Duration
	minRemaining time.Duration
}

// parse parses a window; zones are the time zones that were loaded before.
func (w *window) parse(text *Window, zones map[string]*time.Location) error {
	var err error
	if w.fields, err = parseFields(text.Schedule); err != nil {
		return fmt.Errorf("schedule %q: %w", text.Schedule, err)
	}
	if w.location = zones[text.TimeZone]; w.location == nil {
		if w.location, err = time.LoadLocation(text.TimeZone); err != nil {
			return fmt.Errorf("timeZone: %w", err)
		}
		zones[text.TimeZone] = w.location
	}
	w.duration, w.minRemaining = bounded.Duration(text.Duration), text.MinRemaining
	switch {
	case w.duration <= 0:
		return fmt.Errorf("duration %s: it must be open for some time", w.duration)
	case w.minRemaining < 0:
		return fmt.Errorf("minRemaining %s: it must not be negative", w.minRemaining)
	case w.minRemaining > w.duration:
		return fmt.Errorf("minRemaining %s: it must not be longer than duration %s", w.minRemaining, w.duration)
	}
	return nil
}

// cursor is a window at an instant that moves forward.
type cursor struct {
	*window

	// open reports whether disruptions may begin, until an instant; zero is for ever.
	open  bool
	until time.Time
	// ending reports whether the window is open, but disruptions may no longer begin.
	ending bool

	zone  *zone
	moved bool
}

// opening is when a window opens: what its clock shows or has skipped, and the instant in seconds since 1970.
type opening struct {
	clock clock
	at    int64
}

// moveTo moves to an instant.
func (c *cursor) moveTo(now time.Time) {
	if c.moved && (c.until.IsZero() || now.Before(c.until)) {
		return
	}
	if !c.moved {
		c.zone, c.moved = &zone{location: c.location}, true
	}
	c.open, c.ending = false, false
	shown := c.zone.latest(now.Unix())
	opened, found := c.before(shown)
	if !found || !now.Before(c.closes(opened)) {
		c.until = c.opens(shown + 1)
		return
	}
	last, found := c.last(opened)
	if !found {
		c.open, c.until = true, time.Time{}
		return
	}
	c.until = c.closes(last).Add(-c.minRemaining)
	if c.minRemaining > 0 {
		// At this instant exactly MinRemaining is left.
		c.until = c.until.Add(1)
	}
	if c.open = now.Before(c.until); !c.open {
		c.ending = true
		c.until = c.opens(shown + 1)
	}
}

// closes returns when the window closes if it does not open again before.
func (c *cursor) closes(o opening) time.Time {
	return time.Unix(o.at, 0).UTC().Add(c.duration)
}

// opens returns when the window opens first at or after a time of its clock; zero is never.
func (c *cursor) opens(from clock) time.Time {
	if next, found := c.after(from); found {
		return time.Unix(next.at, 0).UTC()
	}
	return time.Time{}
}

// after returns the first opening at or after a time of the clock.
func (c *cursor) after(from clock) (opening, bool) {
	next, found := c.fields.next(from)
	if !found {
		return opening{}, false
	}
	return opening{next, c.zone.first(next)}, true
}

// before returns the last opening at or before a time of the clock.
func (c *cursor) before(from clock) (opening, bool) {
	previous, found := c.fields.previous(from)
	if !found {
		return opening{}, false
	}
	return opening{previous, c.zone.first(previous)}, true
}

// last returns the last opening that overlaps or adjoins the one before it, from an opening on. It reports false if there is none within the
// horizon: the window does not close.
func (c *cursor) last(from opening) (opening, bool) {
	for current := from; current.at-from.at < horizon; {
		reached, changed := c.fields.reaches(current.clock, c.duration), c.zone.unchangedUntil(current.at)
		switch {
		case reached > changed:
			// Until the clock is changed, as much time elapses between openings as the clock shows.
			current, _ = c.before(changed)
		case reached == forever:
			return opening{}, false
		case reached > current.clock:
			current = opening{reached, c.zone.first(reached)}
		}
		next, found := c.after(current.clock + 1)
		if !found || time.Duration(next.at-current.at)*time.Second > c.duration {
			return current, true
		}
		current = next
	}
	return opening{}, false
}
