// Command nodegroups measures roll-outs of a NodeGroup that selects its Nodes by a label, on a control plane of its own, beside the floor of the same
// machine in the same run: writers that do nothing but send the same patches. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

func main() { bench.Main(run) }

// settings are the command line.
type settings struct {
	bench.Settings

	nodes, rounds int
	rest          time.Duration
}

func parse() (settings, error) {
	var s settings
	flag.IntVar(&s.nodes, "nodes", 5000, "number of Nodes")
	flag.IntVar(&s.rounds, "rounds", 5, "how often the roll-out is measured, each time between two floors")
	flag.DurationVar(&s.rest, "rest", time.Minute, "how long nothing may be written")
	if err := s.Parse(); err != nil {
		return s, err
	}
	if s.nodes < 1 || s.rounds < 1 {
		return s, errors.New("-nodes and -rounds: want 1 or more")
	}
	return s, nil
}

// The figures to reach (a ratio, requests, MiB).
const (
	wantRatio        = 0.9
	wantWrites       = 1.0
	wantStatusWrites = 1.0
	// slackStatusWrites is for the times of the answers, which vary.
	slackStatusWrites = 0.05
	wantMemory        = 200.0
)

// report is everything that was measured.
type report struct {
	Go    string `json:"go"`
	Cores int    `json:"cores"`
	Nodes int    `json:"nodes"`
	// Rounds are in the order in which they were measured.
	Rounds []round `json:"rounds"`
	// Restart is how long a start with nothing to do takes, in seconds.
	Restart       float64 `json:"restartSeconds"`
	RestartWrites int     `json:"restartWrites"`
	RestSeconds   float64 `json:"restSeconds"`
	RestWrites    int     `json:"restWrites"`
	// PeakMemory is the operator's largest resident size in MiB over all of this.
	PeakMemory float64 `json:"peakMemoryMiB"`
}

// round is one roll-out, with the floor before and after it. Watched is the floor of writers that also watch the Nodes.
type round struct {
	Before  float64 `json:"floorBeforeSeconds"`
	After   float64 `json:"floorAfterSeconds"`
	Watched float64 `json:"watchedFloorSeconds"`
	Seconds float64 `json:"seconds"`
	// Writes is how many writes of Nodes there were, for each Node.
	Writes float64 `json:"writesPerNode"`
	// StatusWrites is how many writes of the group's status there were in each second, from the first to the last.
	StatusWrites float64 `json:"statusWritesPerSecond"`
}

// Floor is the mean of the floors before and after the roll-out.
func (r *round) Floor() float64 { return (r.Before + r.After) / 2 }

// Ratio is the share of the floor's speed.
func (r *round) Ratio() float64 { return r.Floor() / r.Seconds }

func run(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	r := &report{Go: runtime.Version(), Cores: runtime.NumCPU(), Nodes: s.nodes}
	if err := measure(ctx, s, r); err != nil {
		return err
	}
	fmt.Print("\n", bench.Table(r.rows()), r.goals())
	return s.Write(r)
}

func (r *report) rows() [][]string {
	rows := [][]string{{
		"round", "floor before, after", "floor with a watch", "Drover", "share of the floor's speed", "writes per Node", "status writes per second",
	}}
	for i := range r.Rounds {
		one := &r.Rounds[i]
		rows = append(rows, []string{
			fmt.Sprint(i + 1), fmt.Sprintf("%.2f s, %.2f s", one.Before, one.After),
			fmt.Sprintf("%.2f s (%.2f)", one.Watched, one.Floor()/one.Watched),
			fmt.Sprintf("%.2f s", one.Seconds), fmt.Sprintf("%.2f", one.Ratio()),
			fmt.Sprintf("%.3f", one.Writes), fmt.Sprintf("%.2f", one.StatusWrites),
		})
	}
	return rows
}

// goals compares the figures with those to reach.
func (r *report) goals() string {
	goals := &bench.Goals{}
	ratio, writes, status := 0.0, 0.0, 0.0
	for i := range r.Rounds {
		ratio += r.Rounds[i].Ratio() / float64(len(r.Rounds))
		writes, status = max(writes, r.Rounds[i].Writes), max(status, r.Rounds[i].StatusWrites)
	}
	goals.Add(ratio >= wantRatio, "%.2f of the floor's speed in the mean, at least %.2f", ratio, wantRatio)
	goals.Add(math.Round(1000*writes) == 1000*wantWrites, "%.3f writes per Node at most, exactly %.0f", writes, wantWrites)
	goals.Add(status <= wantStatusWrites+slackStatusWrites, "%.2f writes of the status per second at most, at most %.0f", status, wantStatusWrites)
	goals.Add(r.RestartWrites == 0, "restart in %.1f s with %d writes, none", r.Restart, r.RestartWrites)
	goals.Add(r.RestWrites == 0, "%d writes in %.0f s at rest, none", r.RestWrites, r.RestSeconds)
	goals.Add(r.PeakMemory <= wantMemory, "%.0f MiB, at most %.0f MiB", r.PeakMemory, wantMemory)
	return goals.String()
}
