package main

import (
	"testing"
	"time"
)

func TestShortest(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		lengths []time.Duration
		places  int
		want    time.Duration
	}{
		{nil, 2, s},
		{[]time.Duration{3 * s, 3 * s}, 2, s},
		{[]time.Duration{3 * s, 3 * s, 3 * s}, 2, 4 * s},
		{[]time.Duration{3 * s, 3 * s, 3 * s, 3 * s, 3 * s}, 1, 13 * s},
		{[]time.Duration{5 * s, 1 * s, 1 * s, 1 * s}, 2, 3 * s},
	} {
		if got := shortest(c.lengths, c.places, s); got != c.want {
			t.Errorf("%v in %d places: %s, want %s", c.lengths, c.places, got, c.want)
		}
	}
}

func TestTurns(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	l := budgetUse{taken: []time.Time{at(2), at(0), at(4)}, freed: []time.Time{at(3), at(6)}}
	got := l.turns()
	// 0 to 3, 2 to 6, and the third as long as those on the average.
	for i, want := range []time.Duration{3 * time.Second, 4 * time.Second, 3500 * time.Millisecond} {
		if got[i] != want {
			t.Errorf("%d: %s, want %s", i, got[i], want)
		}
	}
}
