package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/drover-io/drover/test/cluster"
)

// sizesFlag declares a flag with numbers of Machines.
func sizesFlag(flags *flag.FlagSet, name, usage string, sizes ...int) *[]int {
	flags.Func(name, fmt.Sprintf("%s (default %d)", usage, sizes), func(text string) error {
		sizes = nil
		for _, number := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
			size, err := strconv.Atoi(number)
			if err != nil || size < 1 {
				return fmt.Errorf("%q is not a number of Machines", number)
			}
			sizes = append(sizes, size)
		}
		return nil
	})
	return &sizes
}

// rollouts measures roll-outs with all capabilities but machines.
func rollouts(flags *flag.FlagSet) func(context.Context, *bench) error {
	sizes := sizesFlag(flags, "sizes", "numbers of Machines; the last one is also measured at rest", 500, 2000, 5000)
	return func(ctx context.Context, b *bench) error {
		for i, size := range *sizes {
			if err := rolloutsOf(ctx, b, size, i == len(*sizes)-1); err != nil {
				return fmt.Errorf("%d Machines: %w", size, err)
			}
		}
		return nil
	}
}

func rolloutsOf(ctx context.Context, b *bench, size int, last bool) error {
	rounds := b.rounds
	if size < 1000 {
		// Short ones vary most, and cost least.
		rounds = 2*rounds + 1
	}
	f := &fleet{pools: []pool{{"bench", size}}}
	return b.onFleet(ctx, f, cluster.Options{KubeletLeases: true}, func() []step {
		steps := []step{
			{"roll-outs, and bare writers", func(ctx context.Context) error { return f.compareRollouts(ctx, rounds, atLeast(0.85), aim{}) }},
			{"roll-out with the default limit, and manual edits", f.limitedRollout},
			{"restart", func(ctx context.Context) error { return f.restart(ctx, "restart", atMost(20), aim{}) }},
		}
		if last {
			steps = append(steps, step{"rest", f.rest})
		}
		return append(steps, step{"memory", func(context.Context) error {
			f.column.add("peak memory", f.peak, inMiB, atMost(200))
			return nil
		}})
	})
}
