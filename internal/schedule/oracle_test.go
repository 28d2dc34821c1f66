package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// changedClocks are instants around which a clock is changed, at a whole minute.
var changedClocks = []struct {
	zone string
	year int
	at   time.Month
	day  int
}{
	{"Europe/Berlin", 2026, time.March, 29}, {"Europe/Berlin", 2026, time.October, 25}, {"Europe/Berlin", 2041, time.March, 31},
	{"America/New_York", 2026, time.March, 8}, {"America/New_York", 2026, time.November, 1},
	{"Australia/Lord_Howe", 2026, time.October, 3}, {"Australia/Lord_Howe", 2026, time.April, 4},
	{"Pacific/Apia", 2011, time.December, 30}, {"Pacific/Apia", 2012, time.March, 31}, {"Pacific/Kwajalein", 1969, time.September, 30},
	{"Pacific/Kwajalein", 1993, time.August, 21}, {"Africa/Casablanca", 2026, time.February, 15}, {"Africa/Casablanca", 2026, time.March, 22},
	{"America/Sao_Paulo", 2018, time.November, 4}, {"America/Sao_Paulo", 2018, time.February, 18},
	{"Asia/Kathmandu", 1985, time.December, 31},
	{"Asia/Pyongyang", 2015, time.August, 14}, {"Europe/Dublin", 2026, time.October, 25}, {"Antarctica/Troll", 2026, time.March, 29},
	{"America/Caracas", 2016, time.May, 1}, {"Asia/Gaza", 2026, time.March, 28}, {"", 2028, time.February, 29},
	{"Europe/Berlin", 2040, time.December, 31}, // https://go.dev/issue/81583
}

// oracleSchedule is a schedule whose fields are lists of numbers; an empty one is a star.
type oracleSchedule [5][]int

// fieldBounds are the lowest and the highest number of each field.
var fieldBounds = [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}

func (s oracleSchedule) String() string {
	var fields []string
	for _, numbers := range s {
		texts := []string{}
		for _, number := range numbers {
			texts = append(texts, fmt.Sprint(number))
		}
		if len(texts) == 0 {
			texts = []string{"*"}
		}
		fields = append(fields, strings.Join(texts, ","))
	}
	return strings.Join(fields, " ")
}

// has reports whether a time of the clock, in the place of a time in UTC, is one of the schedule.
func (s oracleSchedule) has(shown time.Time) bool {
	in := func(field, number int) bool { return len(s[field]) == 0 || slices.Contains(s[field], number) }
	day, weekday := in(2, shown.Day()), in(4, int(shown.Weekday()))
	if len(s[2]) > 0 && len(s[4]) > 0 {
		day = day || weekday
	} else {
		day = day && weekday
	}
	return in(0, shown.Minute()) && in(1, shown.Hour()) && day && in(3, int(shown.Month()))
}

// oracleWindow is a window of the oracle; durations are in minutes.
type oracleWindow struct {
	schedule               oracleSchedule
	zone                   string
	duration, minRemaining int
}

// covered walks through all minutes from an instant on, and returns for how many minutes from each on the window is open. A time that the clock
// shows or skips opens it unless it has shown or skipped that time before.
func (w *oracleWindow) covered(t *rapid.T, from time.Time, minutes int) []int {
	location, err := time.LoadLocation(w.zone)
	if err != nil {
		t.Fatal(err)
	}
	shownAt := func(at time.Time) int64 {
		_, offset := at.In(location).Zone()
		return at.Unix() + int64(offset)
	}
	seen := map[int64]bool{}
	open := make([]int, minutes)
	until := 0
	for i := range open {
		at := from.Add(time.Duration(i) * time.Minute)
		shown := shownAt(at)
		first := shown
		if previous := shownAt(at.Add(-time.Minute)); i > 0 && previous < shown {
			first = previous + 60
		}
		for ; first <= shown; first += 60 {
			if !seen[first] && w.schedule.has(time.Unix(first, 0).UTC()) {
				until = i + w.duration
			}
			seen[first] = true
		}
		if i < until {
			open[i] = 1
		}
	}
	for i := minutes - 2; i >= 0; i-- {
		if open[i] > 0 {
			open[i] = open[i+1] + 1
		}
	}
	return open
}

// oracle are the answers for every minute, and for the time after it until the next one.
type oracle struct {
	from              time.Time
	windows           []oracleWindow
	freezes           [][2]int
	openAt, openAfter []bool
}

func (o *oracle) walk(t *rapid.T, minutes int) {
	o.openAt, o.openAfter = make([]bool, minutes), make([]bool, minutes)
	for w := range o.windows {
		window := &o.windows[w]
		for i, left := range window.covered(t, o.from, minutes) {
			o.openAt[i] = o.openAt[i] || left > 0 && left >= window.minRemaining
			o.openAfter[i] = o.openAfter[i] || left > 0 && left > window.minRemaining
		}
	}
	for i := range minutes {
		for _, freeze := range o.freezes {
			if freeze[0] <= i && i < freeze[1] {
				o.openAt[i], o.openAfter[i] = false, false
			}
		}
	}
}

// changes returns when the state of a minute changes next; false is not before the end.
func (o *oracle) changes(minute, end int) (time.Time, bool) {
	for i := minute; i < end; i++ {
		at := o.from.Add(time.Duration(i) * time.Minute)
		if o.openAt[i] != o.openAt[minute] {
			return at, true
		}
		if o.openAfter[i] != o.openAt[minute] {
			return at.Add(1), true
		}
	}
	return time.Time{}, false
}

func drawSchedule(t *rapid.T, hours []int) oracleSchedule {
	var s oracleSchedule
	for field, bounds := range fieldBounds {
		if rapid.IntRange(0, 3).Draw(t, "star") < 2 && field > 0 {
			continue
		}
		number := rapid.IntRange(bounds[0], bounds[1])
		if field == 1 {
			// Hours near the change of the clock are the interesting ones.
			number = rapid.OneOf(number, rapid.SampledFrom(hours))
		}
		s[field] = rapid.SliceOfNDistinct(number, 1, 4, rapid.ID[int]).Draw(t, "numbers")
	}
	if rapid.Bool().Draw(t, "every month") {
		s[3] = nil
	}
	return s
}

func TestCalendar_AgreesWithOracle(t *testing.T) {
	const (
		day     = 24 * 60
		before  = 9 * day
		minutes = before + 14*day
	)
	rapid.Check(t, func(t *rapid.T) {
		o := oracle{}
		var windows []Window
		var freezes []Freeze
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			change := rapid.SampledFrom(changedClocks).Draw(t, "change")
			if len(o.windows) == 0 {
				o.from = time.Date(change.year, change.at, change.day, 0, 0, 0, 0, time.UTC).Add(-before * time.Minute)
			}
			w := oracleWindow{
				schedule: drawSchedule(t, []int{0, 1, 2, 3, 23}), zone: change.zone,
				duration: rapid.OneOf(rapid.IntRange(1, 90), rapid.IntRange(1, 3*day), rapid.SampledFrom([]int{60, 120, day, 2 * day})).Draw(t, "duration"),
			}
			if rapid.Bool().Draw(t, "with minRemaining") {
				w.minRemaining = rapid.IntRange(1, w.duration).Draw(t, "minRemaining")
			}
			o.windows = append(o.windows, w)
			windows = append(windows, Window{
				Schedule: w.schedule.String(), TimeZone: w.zone,
				Duration: time.Duration(w.duration) * time.Minute, MinRemaining: time.Duration(w.minRemaining) * time.Minute,
			})
		}
		for range rapid.IntRange(0, 2).Draw(t, "freezes") {
			from := rapid.IntRange(before-day, minutes).Draw(t, "from")
			to := from + rapid.IntRange(1, 2*day).Draw(t, "long")
			o.freezes = append(o.freezes, [2]int{from, to})
			freezes = append(freezes, Freeze{From: o.from.Add(time.Duration(from) * time.Minute), To: o.from.Add(time.Duration(to) * time.Minute)})
		}
		o.walk(t, minutes)
		calendar, err := Parse(windows, freezes)
		if err != nil {
			t.Fatal(err)
		}
		// What the oracle knows about the end of a window ends with its walk.
		end := minutes - 4*day
		for range 20 {
			// Half of them are on the day on which the clock of the first window is changed.
			minute := rapid.OneOf(rapid.IntRange(before-2*day, end-1), rapid.IntRange(before, before+day)).Draw(t, "minute")
			now := o.from.Add(time.Duration(minute) * time.Minute)
			state := calendar.At(now)
			want, found := o.changes(minute, end)
			if !found && (state.Changes.IsZero() || !state.Changes.Before(o.from.Add(time.Duration(end)*time.Minute))) {
				want = state.Changes
			}
			if state.Open != o.openAt[minute] || !state.Changes.Equal(want) {
				t.Fatalf("windows %+v, freezes %v: at %s it is %+v, want open %v until %s", windows, freezes, now, state, o.openAt[minute], want)
			}
		}
	})
}
