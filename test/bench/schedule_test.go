package main

import (
	"slices"
	"testing"
	"time"
)

func TestBudgetUse_Turns(t *testing.T) {
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
		"one place":                    {at(0, 3, 5), at(3, 5, 9), 1, []time.Duration{3 * s, 2 * s, 4 * s}},
		"two places":                   {at(2, 0, 4), at(3, 6, 8), 2, []time.Duration{3 * s, 4 * s, 4 * s}},
		"the last takes no place":      {at(0, 3, 7), at(3, 6), 1, []time.Duration{3 * s, 3 * s}},
		"the second takes no place":    {at(0, 1, 6), at(6, 9), 1, []time.Duration{5 * s, 3 * s}},
		"one is freed before all":      {at(1, 4), at(0, 4, 7), 1, []time.Duration{3 * s, 3 * s}},
		"the watch did not show a one": {at(1, 4), nil, 1, nil},
	} {
		if got := (&budgetUse{taken: c.taken, freed: c.freed}).turns(c.places); !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestBudgetUse_Take(t *testing.T) {
	var use budgetUse
	for i, pod := range []string{"a", "b", "a"} {
		use.take(pod, time.Unix(int64(i), 0))
	}
	if len(use.taken) != 2 {
		t.Errorf("%d places are taken, want 2: a Pod that is evicted again takes none", len(use.taken))
	}
}

func TestFastestDrain(t *testing.T) {
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
		if got := fastestDrain(c.lengths, c.places, s); got != c.want {
			t.Errorf("%v in %d places: %s, want %s", c.lengths, c.places, got, c.want)
		}
	}
}

func TestReplacementLimits_Fastest(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		limits replacementLimits
		want   time.Duration
	}{
		"no Machine":                              {replacementLimits{0, 1, 1, 10 * s, s}, 0},
		"one Machine":                             {replacementLimits{1, 1, 1, 10 * s, s}, 11 * s},
		"one after the other":                     {replacementLimits{3, 1, 1, 10 * s, s}, 31 * s},
		"two at the same time":                    {replacementLimits{4, 2, 2, 10 * s, s}, 21 * s},
		"two at the same time, an odd number":     {replacementLimits{5, 2, 2, 10 * s, s}, 31 * s},
		"surge exceeds the Machines":              {replacementLimits{4, 9, 9, 10 * s, s}, 11 * s},
		"one place: deletions one by one":         {replacementLimits{3, 3, 1, 10 * s, 2 * s}, 16 * s},
		"a deletion takes longer than a boot":     {replacementLimits{4, 4, 2, s, 10 * s}, 21 * s},
		"a place is free before the next boots":   {replacementLimits{4, 2, 1, 10 * s, 2 * s}, 24 * s},
		"a place is free after the next one does": {replacementLimits{3, 1, 1, s, 10 * s}, 31 * s},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.limits.fastest(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
