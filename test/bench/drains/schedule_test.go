package main

import (
	"slices"
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
	const s = time.Second
	at := func(seconds ...int) (times []time.Time) {
		for _, n := range seconds {
			times = append(times, time.Unix(int64(n), 0))
		}
		return times
	}
	for name, c := range map[string]struct {
		taken, freed []time.Time
		places       int
		want         []time.Duration
	}{
		"one place":               {at(0, 3, 5), at(3, 5, 9), 1, []time.Duration{3 * s, 2 * s, 4 * s}},
		"two places":              {at(2, 0, 4), at(3, 6, 8), 2, []time.Duration{3 * s, 4 * s, 4 * s}},
		"the last takes no place": {at(0, 3, 7), at(3, 6), 1, []time.Duration{3 * s, 3 * s}},
		"one takes no place":      {at(0, 1, 6), at(6, 9), 1, []time.Duration{5 * s, 3 * s}},
		"one too many":            {at(1, 4), at(0, 4, 7), 1, []time.Duration{3 * s, 3 * s}},
		"none is seen":            {at(1, 4), nil, 1, nil},
	} {
		if got := (&budgetUse{taken: c.taken, freed: c.freed}).turns(c.places); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTake(t *testing.T) {
	var l budgetUse
	for i, pod := range []string{"a", "b", "a"} {
		l.take(pod, time.Unix(int64(i), 0))
	}
	if len(l.taken) != 2 {
		t.Errorf("%d places are taken, want 2: a pod that is evicted again takes none", len(l.taken))
	}
}
