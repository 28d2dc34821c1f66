package bounded

import (
	"math"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for name, test := range map[string]struct {
		n    int64
		want time.Duration
	}{
		"zero":                        {0, 0},
		"an hour":                     {3600, time.Hour},
		"negative":                    {-5, -5 * time.Second},
		"the bound":                   {int64(MaxDuration / time.Second), MaxDuration},
		"overflows as nanoseconds":    {9999999999, MaxDuration},
		"overflows to a small number": {18446744074, MaxDuration},
		"largest":                     {math.MaxInt64, MaxDuration},
		"smallest":                    {math.MinInt64, -MaxDuration},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Seconds(test.n); got != test.want {
				t.Errorf("Seconds(%d) = %s, want %s", test.n, got, test.want)
			}
		})
	}
	if got := Seconds(int32(math.MaxInt32)); got != math.MaxInt32*time.Second {
		t.Errorf("the largest int32 becomes %s", got)
	}
}

func TestDuration(t *testing.T) {
	for name, test := range map[string]struct{ d, want time.Duration }{
		"zero":     {0, 0},
		"in range": {-time.Minute, -time.Minute},
		"largest":  {math.MaxInt64, MaxDuration},
		"smallest": {math.MinInt64, -MaxDuration},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Duration(test.d); got != test.want {
				t.Errorf("Duration(%d) = %s, want %s", test.d, got, test.want)
			}
		})
	}
	if sum := Duration(math.MaxInt64) + Duration(math.MaxInt64); sum < 0 {
		t.Errorf("the sum of two is %s", sum)
	}
}

func TestIsEncodable(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-11-30T12:00:00Z": true, "9999-12-31T23:59:59Z": true, "9999-12-31T23:59:59-00:01": false, "9999-12-31T23:59:59+01:00": true,
		"0000-01-01T00:00:00Z": true, "0000-01-01T00:00:00+00:01": false,
	} {
		at, err := time.Parse(time.RFC3339, text)
		if got := IsEncodable(at); err != nil || got != want {
			t.Errorf("IsEncodable(%s) = %t, error %v", text, got, err)
		}
	}
	if !IsEncodable(time.Time{}) {
		t.Error("no time cannot be encoded")
	}
}

func TestInt32(t *testing.T) {
	for n, want := range map[int64]int32{
		0: 0, -7: -7, math.MaxInt32: math.MaxInt32, math.MaxInt32 + 1: math.MaxInt32, math.MaxInt64: math.MaxInt32, math.MinInt64: math.MinInt32,
	} {
		if got := Int32(n); got != want {
			t.Errorf("Int32(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestIsPossible(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		at   time.Time
		want bool
	}{
		"never":              {time.Time{}, true},
		"now":                {now, true},
		"by another clock":   {now.Add(maxSkew), true},
		"by a clock wrong":   {now.Add(maxSkew + time.Second), false},
		"in a hundred years": {now.Add(MaxDuration), false},
	} {
		if got := IsPossible(test.at, now); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestEarliest(t *testing.T) {
	start := time.Unix(1, 0)
	later := start.Add(time.Second)
	for _, c := range []struct{ a, b, want time.Time }{
		{time.Time{}, time.Time{}, time.Time{}}, {start, time.Time{}, start}, {time.Time{}, start, start}, {start, later, start}, {later, start, start},
	} {
		if got := Earliest(c.a, c.b); got != c.want {
			t.Errorf("of %s and %s: %s", c.a, c.b, got)
		}
	}
}

func TestBeginning(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc...", "aböd": "ab..."} {
		if got := Beginning(text, 3); got != want {
			t.Errorf("of %q: %q, want %q", text, got, want)
		}
	}
}
