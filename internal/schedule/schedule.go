package schedule

import (
	"fmt"
	"time"

	"github.com/drover-io/drover/internal/bounded"
)

// Window is a recurring period. Disruptions may begin while it is open.
type Window struct {
	// Schedule is when it opens: five fields of cron, or a descriptor such as @daily.
	Schedule string
	// TimeZone is the name of the time zone of Schedule in the tz database; empty is UTC.
	TimeZone string
	// Duration is for how long it is open after it opens. Openings that overlap or adjoin are one.
	Duration time.Duration
	// MinRemaining is how much of it must be left for a disruption to begin. It is at most Duration.
	MinRemaining time.Duration
}

// Freeze is a period without new disruptions, whatever the windows say.
type Freeze struct {
	// From is its first instant.
	From time.Time
	// To is the first instant after it.
	To time.Time
	// Reason is the user's text.
	Reason string
}

// State is whether disruptions may begin at an instant.
type State struct {
	// Open reports whether they may.
	Open bool
	// Changes is when Open changes next; zero is never. It is exact, except where windows relieve one another without a pause two thousand times, or
	// for ten years: then Open stays true at least until it.
	Changes time.Time
	// Freeze is the freeze in effect; nil is none. If there are several, it is the last to end.
	Freeze *Freeze
	// Ending reports whether a window is open with less than its MinRemaining left, and no other window lets disruptions begin.
	Ending bool
}

// Calendar is a parsed set of windows and freezes. It may be used by several goroutines.
type Calendar struct {
	windows []window
	freezes []Freeze
}

// maxSteps bounds the search for the end of windows that relieve one another. A year has 1,095 shifts of eight hours.
const maxSteps = 2000

// Parse checks windows and freezes. An error names the first that is invalid, as windows[0] or freezes[0].
func Parse(windows []Window, freezes []Freeze) (*Calendar, error) {
	c := &Calendar{windows: make([]window, len(windows)), freezes: freezes}
	zones := make(map[string]*time.Location, 1)
	for i := range windows {
		if err := c.windows[i].parse(&windows[i], zones); err != nil {
			return nil, fmt.Errorf("windows[%d]: %w", i, err)
		}
	}
	for i := range freezes {
		if from, to := freezes[i].From, freezes[i].To; !from.Before(to) {
			return nil, fmt.Errorf("freezes[%d]: to %s must be after from %s", i, to.UTC().Format(time.RFC3339), from.UTC().Format(time.RFC3339))
		}
	}
	return c, nil
}

// Decide returns the state at an instant. It is closed, with an error, if a window or a freeze is invalid.
func Decide(windows []Window, freezes []Freeze, now time.Time) (State, error) {
	c, err := Parse(windows, freezes)
	if err != nil {
		return State{}, err
	}
	return c.At(now), nil
}

// At returns the state at an instant.
func (c *Calendar) At(now time.Time) State {
	s := search{Calendar: c, windows: make([]cursor, len(c.windows))}
	for i := range s.windows {
		s.windows[i].window = &c.windows[i]
	}
	now = now.UTC()
	open, until := s.at(now)
	state := State{Open: open, Changes: until, Freeze: c.freezeAt(now)}
	if !open && state.Freeze == nil {
		for i := range s.windows {
			state.Ending = state.Ending || s.windows[i].ending
		}
	}
	for range maxSteps {
		if state.Changes.IsZero() || open && state.Changes.Unix()-now.Unix() > horizon {
			break
		}
		if open, until = s.at(state.Changes); open != state.Open {
			break
		}
		state.Changes = until
	}
	return state
}

// Interval is a time in which disruptions may begin: From is in it, To is not.
type Interval struct{ From, To time.Time }

// Open returns the intervals between two instants in which disruptions may begin, at most so many of them, and until when they are all.
func (c *Calendar) Open(from, to time.Time, most int) (open []Interval, until time.Time) {
	for from.Before(to) && len(open) < most {
		state := c.At(from)
		end := state.Changes
		if end.IsZero() || end.After(to) {
			end = to
		}
		if state.Open {
			open = append(open, Interval{from, end})
		}
		from = end
	}
	return open, from
}

// freezeAt returns the freeze in effect that ends last, or nil.
func (c *Calendar) freezeAt(now time.Time) *Freeze {
	var last *Freeze
	for i := range c.freezes {
		f := &c.freezes[i]
		if !now.Before(f.From) && now.Before(f.To) && (last == nil || f.To.After(last.To)) {
			last = f
		}
	}
	return last
}

// search is a search for the next change. Time goes forward in it.
type search struct {
	*Calendar
	windows []cursor
}

// at reports whether disruptions may begin at an instant, and returns an instant before which that does not change; zero is never.
func (s *search) at(now time.Time) (open bool, until time.Time) {
	if freeze := s.freezeAt(now); freeze != nil {
		return false, freeze.To.UTC()
	}
	open, until = s.windowsAt(now)
	if !open {
		return open, until
	}
	for i := range s.freezes {
		if from := s.freezes[i].From; from.After(now) {
			until = bounded.Earliest(until, from.UTC())
		}
	}
	return open, until
}

// windowsAt is at without freezes.
func (s *search) windowsAt(now time.Time) (open bool, until time.Time) {
	if len(s.windows) == 0 {
		return true, time.Time{}
	}
	var opens, closes time.Time
	always := false
	for i := range s.windows {
		w := &s.windows[i]
		w.moveTo(now)
		switch {
		case !w.open:
			opens = bounded.Earliest(opens, w.until)
		case w.until.IsZero():
			always = true
		case w.until.After(closes):
			closes = w.until
		}
		open = open || w.open
	}
	switch {
	case always:
		return true, time.Time{}
	case open:
		return true, closes
	default:
		return false, opens
	}
}
