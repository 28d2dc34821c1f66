package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// wantRatio is how many times the fastest schedule a replacement may take.
const wantRatio = 1.15

// report is everything that was measured.
type report struct {
	Machines int `json:"machines"`
	Surge    int `json:"surge"`
	Budget   int `json:"budget"`
	// Boot and Deletion are the seconds that single Machines took.
	Boot     []float64 `json:"bootSeconds"`
	Deletion []float64 `json:"deletionSeconds"`
	// Ideal is the fastest schedule.
	Ideal  float64 `json:"idealSeconds"`
	Rounds []round `json:"rounds"`
	// PeakMemory is the operator's largest resident size in MiB over all of this.
	PeakMemory float64 `json:"peakMemoryMiB"`
}

// round is one replacement of all Machines.
type round struct {
	Seconds float64 `json:"seconds"`
	// Writes is how many writes there were for each Machine, events among them.
	Writes float64 `json:"writesPerMachine"`
	// Kinds are the same by verb and resource.
	Kinds map[string]float64 `json:"writesByKind"`
	// Most is how many Machines there were at the same time that were not being deleted.
	Most int `json:"mostMachines"`
}

// mean returns the mean of some values.
func mean(values []float64) (sum float64) {
	for _, value := range values {
		sum += value / float64(len(values))
	}
	return sum
}

func (r *report) table() string {
	text := fmt.Sprintf("\n%d Machines, surge %d, budget %d; a single Machine boots in %.2f s (%.2f to %.2f), and is gone after %.2f s (%.2f to %.2f)\n",
		r.Machines, r.Surge, r.Budget, mean(r.Boot), slices.Min(r.Boot), slices.Max(r.Boot),
		mean(r.Deletion), slices.Min(r.Deletion), slices.Max(r.Deletion))
	rows := [][]string{{"round", "fastest schedule", "Drover", "ratio", "writes per Machine"}}
	for i := range r.Rounds {
		one := &r.Rounds[i]
		rows = append(rows, []string{
			fmt.Sprint(i + 1), fmt.Sprintf("%.1f s", r.Ideal), fmt.Sprintf("%.1f s", one.Seconds), fmt.Sprintf("%.3f", one.Seconds/r.Ideal),
			fmt.Sprintf("%.2f", one.Writes),
		})
	}
	text += bench.Table(rows) + "\nWrites for each Machine:\n"
	last := r.Rounds[len(r.Rounds)-1].Kinds
	for _, kind := range slices.Sorted(maps.Keys(last)) {
		text += fmt.Sprintf("  %6.2f  %s\n", last[kind], kind)
	}
	return text
}

// goals compares the figures with those to reach.
func (r *report) goals() string {
	goals := &bench.Goals{}
	for i := range r.Rounds {
		one := &r.Rounds[i]
		goals.Add(one.Seconds/r.Ideal <= wantRatio, "round %d: %.3f of the fastest schedule, at most %.2f", i+1, one.Seconds/r.Ideal, wantRatio)
		goals.Add(one.Most <= r.Machines+r.Surge, "round %d: at most %d Machines at the same time, %d", i+1, one.Most, r.Machines+r.Surge)
	}
	return goals.String() + fmt.Sprintf("\n%.0f MiB of memory at most\n", r.PeakMemory)
}
