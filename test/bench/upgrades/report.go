package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// wantSeconds is what a node may cost beyond its Jobs and its upgrade, of 99 in a hundred.
const wantSeconds = 1.0

// worthNaming is how many requests of a kind there must be for each node to be printed.
const worthNaming = 0.02

// quantile is the smallest value that so great a share of the others does not exceed.
func quantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}

func table(s settings, out *results) string {
	p50, p99 := quantile(out.Overhead, 0.5), quantile(out.Overhead, 0.99)
	floor := quantile(out.Floor, 0.5)
	text := fmt.Sprintf("\n%d nodes, %d rules, in %.1f s: beyond its Jobs and its upgrade a node takes %.3f s (median), %.3f s (p99), %.3f s (worst)\n",
		s.nodes, s.rules, out.Seconds, p50, p99, slices.Max(out.Overhead))
	text += fmt.Sprintf("the same writes one after the other, by a bare client: %.3f s (median); Drover's median is %.1f times that\n", floor, p50/floor)
	text += fmt.Sprintf("%.2f requests for each node, %.2f of them writes; %d writes in %s of waiting\n",
		out.Requests, out.Writes, out.Resting, s.window)
	text += "\nRequests for each node:\n"
	for _, kind := range slices.Sorted(maps.Keys(out.Kinds)) {
		if out.Kinds[kind] >= worthNaming {
			text += fmt.Sprintf("  %6.2f  %s\n", out.Kinds[kind], kind)
		}
	}
	goals := &bench.Goals{}
	goals.Add(p99 <= wantSeconds, "%.3f s beyond Jobs and upgrade (p99), at most %.0f", p99, wantSeconds)
	goals.Add(out.Resting == 0, "%d writes while the run waits, at most 0", out.Resting)
	return text + goals.String()
}
