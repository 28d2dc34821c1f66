// Package bounded converts numbers that users write into durations and counts, and says which times are possible. A conversion never overflows: what
// is out of range becomes the nearest bound. The API server accepts any int64 for many fields, a terminationGracePeriodSeconds of 9999999999 among
// them, and time.Duration(n)*time.Second is negative for that one.
package bounded

import (
	"math"
	"time"
)

// MaxDuration is the longest duration that this package returns. The sum of two of them, and the time of one before or after any other, is
// still representable.
const MaxDuration = 100 * 365 * 24 * time.Hour

// Seconds returns a number of seconds as a duration between -MaxDuration and MaxDuration.
func Seconds[N ~int | ~int32 | ~int64](n N) time.Duration {
	const limit = int64(MaxDuration / time.Second)
	return time.Duration(min(max(int64(n), -limit), limit)) * time.Second
}

// Duration returns d if it lies between -MaxDuration and MaxDuration, else the nearer of them.
func Duration(d time.Duration) time.Duration {
	return min(max(d, -MaxDuration), MaxDuration)
}

// maxSkew is how far the clocks of a cluster may differ.
const maxSkew = time.Minute

// IsPossible reports whether something can have happened at a time, as far as one can know now. A time that lies farther ahead was recorded by a
// clock that is wrong: kubelets write the times of their Node's conditions.
func IsPossible(at, now time.Time) bool { return !at.After(now.Add(maxSkew)) }

// maxYear is the last year that RFC 3339 has. The first is 0.
const maxYear = 9999

// IsEncodable reports whether the status of an object can hold a time. Times are written in UTC, where 9999-12-31T23:00:00-02:00 is in the year
// 10000, and 0000-01-01T00:00:00+02:00 is before the year 0. The API server rejects an object with such a time.
func IsEncodable(at time.Time) bool {
	year := at.UTC().Year()
	return year >= 0 && year <= maxYear
}

// Int32 returns n if an int32 can represent it, else the nearest number that an int32 can.
func Int32[N ~int | ~int64](n N) int32 {
	return int32(min(max(int64(n), math.MinInt32), math.MaxInt32))
}

// Earliest returns the earlier of two times. The zero time is never.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
