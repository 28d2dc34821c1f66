package main

import (
	"testing"
	"time"
)

func TestShortest(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		schedule schedule
		want     time.Duration
	}{
		"nothing":                              {schedule{0, 1, 1, 10 * s, s}, 0},
		"one Machine":                          {schedule{1, 1, 1, 10 * s, s}, 11 * s},
		"one after the other":                  {schedule{3, 1, 1, 10 * s, s}, 31 * s},
		"two at the same time":                 {schedule{4, 2, 2, 10 * s, s}, 21 * s},
		"two at the same time, an odd number":  {schedule{5, 2, 2, 10 * s, s}, 31 * s},
		"surge exceeds the Machines":           {schedule{4, 9, 9, 10 * s, s}, 11 * s},
		"one place, in which they go in turn":  {schedule{3, 3, 1, 10 * s, 2 * s}, 16 * s},
		"deletion takes longer than the boot":  {schedule{4, 4, 2, s, 10 * s}, 21 * s},
		"a place is free when the next boots":  {schedule{4, 2, 1, 10 * s, 2 * s}, 24 * s},
		"a place is free after the next boots": {schedule{3, 1, 1, s, 10 * s}, 31 * s},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.schedule.shortest(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
