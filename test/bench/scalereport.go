package main

import (
	"fmt"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// scaleGoals are the figures to reach with a number of Machines (MiB, seconds). Zero is none.
var scaleGoals = map[int]struct{ metadata, all, restart, leader, output, plugin float64 }{
	20000:  {metadata: 250, all: 350, restart: 4, leader: 2, output: 2, plugin: 300},
	100000: {all: 1.1 * 1024},
}

// wantScaleRatio is of the floor's speed, in the round in the middle and in the worst.
const wantScaleRatio, wantScaleWorst = 1.2, 1.1

// scaleReport is everything that was measured.
type scaleReport struct {
	Go      string        `json:"go"`
	Cores   int           `json:"cores"`
	Time    string        `json:"time"`
	Results []scaleResult `json:"results"`
}

// scaleResult is what was measured for one size, with all capabilities on but where it says otherwise.
type scaleResult struct {
	result

	// Static says that the Nodes have no heartbeats. Then there is no floor, and no roll-out to all Machines.
	Static bool `json:"static"`
	// Metadata is a start with that capability alone, and All one with all of them.
	Metadata start `json:"metadataStart"`
	All      start `json:"start"`
	// Part is a roll-out to a hundredth of the Machines.
	Part rollout `json:"part"`
	// Leader is how many seconds after the end of the leader another replica knows every Machine as synced.
	Leader       float64 `json:"leaderChangeSeconds"`
	LeaderWrites int     `json:"leaderChangeWrites"`
	// Bare is what reading alone takes.
	Bare bareReads `json:"bareReads"`
	// Plugin are commands of kubectl drover, of whole clusters.
	Plugin []pluginRun `json:"plugin"`
}

func (r scaleReport) table() string {
	var rows [][]string
	line := func(name string, cell func(*scaleResult) string) {
		cells := []string{name}
		for i := range r.Results {
			cells = append(cells, cell(&r.Results[i]))
		}
		rows = append(rows, cells)
	}
	// played is for what only Nodes have that kwok plays.
	played := func(cell func(*scaleResult) string) func(*scaleResult) string {
		return func(r *scaleResult) string {
			if r.Static {
				return "-"
			}
			return cell(r)
		}
	}
	starts := func(s *start) string { return fmt.Sprintf("%.1f s, %d writes", s.Seconds, s.Writes) }
	line("Machines", func(r *scaleResult) string {
		if r.Static {
			return fmt.Sprintf("%d static", r.Machines)
		}
		return fmt.Sprint(r.Machines)
	})
	line("floor, first and last", played(func(r *scaleResult) string {
		return fmt.Sprintf("%.1f s, %.1f s", r.Floor[0].Seconds, r.Floor[len(r.Floor)-1].Seconds)
	}))
	line("roll-out to all", played(func(r *scaleResult) string { return fmt.Sprintf("%.1f s", r.Rollout.Seconds) }))
	line("share of the floor's speed (worst)", played(func(r *scaleResult) string { return fmt.Sprintf("%.2f (%.2f)", r.Ratio, r.Worst) }))
	line("writes per Machine", played(func(r *scaleResult) string {
		return fmt.Sprintf("%.3f + %.3f", r.Rollout.MachineWrites, r.Rollout.NodeWrites)
	}))
	line("other requests", played(func(r *scaleResult) string { return fmt.Sprint(r.Rollout.OtherRequests) }))
	line("CPU per 1000 Machines", played(func(r *scaleResult) string { return fmt.Sprintf("%.2f s", r.CPUSeconds) }))
	line("with the default limit", played(func(r *scaleResult) string { return fmt.Sprintf("%.1f s", r.Limited.Seconds) }))
	line("a manual edit reverted, p50, max", played(func(r *scaleResult) string { return fmt.Sprintf("%.2f s, %.2f s", r.Drift.P50, r.Drift.Max) }))
	line("roll-out to a hundredth", func(r *scaleResult) string { return fmt.Sprintf("%.1f s", r.Part.Seconds) })
	line("caches filled without Drover", func(r *scaleResult) string { return fmt.Sprintf("%.1f s", r.Bare.Caches) })
	line("restart, metadata alone", func(r *scaleResult) string { return starts(&r.Metadata) })
	line("restart, all capabilities", func(r *scaleResult) string { return starts(&r.All) })
	line("of that, caches compared", func(r *scaleResult) string { return fmt.Sprintf("%.1f s", r.All.CatchUp) })
	line("change of the leader", func(r *scaleResult) string { return fmt.Sprintf("%.1f s, %d writes", r.Leader, r.LeaderWrites) })
	line("the lists of kubectl drover, without it", func(r *scaleResult) string { return fmt.Sprintf("%.1f s", r.Bare.Lists) })
	for i, name := range []string{"status", "plan", "explain"} {
		line("kubectl drover "+name, func(r *scaleResult) string {
			return fmt.Sprintf("%.1f s, %.0f MiB", r.Plugin[i].First, r.Plugin[i].PeakMemory)
		})
	}
	line("peak memory at a start, metadata alone", func(r *scaleResult) string { return fmt.Sprintf("%.0f MiB", r.Metadata.PeakMemory) })
	line("peak memory at a start, all", func(r *scaleResult) string { return fmt.Sprintf("%.0f MiB", r.All.PeakMemory) })
	line("peak memory over all steps", func(r *scaleResult) string { return fmt.Sprintf("%.0f MiB", r.PeakMemory) })
	line("at rest", func(r *scaleResult) string {
		return fmt.Sprintf("%.0f s, %d writes, %.3f cores", r.Rest.Seconds, r.Rest.Writes, r.Rest.Cores)
	})
	return "\n" + bench.Table(rows)
}

// fit fits a line to the peak memory at a start, and says how far each size is from it.
func (r scaleReport) fit() string {
	if len(r.Results) < 2 {
		return ""
	}
	sizes, memory := make([]float64, len(r.Results)), make([]float64, len(r.Results))
	for i := range r.Results {
		sizes[i], memory[i] = float64(r.Results[i].Machines), r.Results[i].All.PeakMemory
	}
	base, slope := fitLine(sizes, memory)
	text := fmt.Sprintf("\nPeak memory at a start, all capabilities: %.0f MiB + %.2f KiB for each Machine\n", base, slope*1024)
	for i := range sizes {
		text += fmt.Sprintf("  %.0f Machines: %+.0f MiB\n", sizes[i], memory[i]-base-slope*sizes[i])
	}
	return text
}

// fitLine returns the line of the least squares.
func fitLine(x, y []float64) (base, slope float64) {
	var sumX, sumY, sumXX, sumXY float64
	n := float64(len(x))
	for i := range x {
		sumX, sumY, sumXX, sumXY = sumX+x[i], sumY+y[i], sumXX+x[i]*x[i], sumXY+x[i]*y[i]
	}
	if d := n*sumXX - sumX*sumX; d != 0 {
		slope = (n*sumXY - sumX*sumY) / d
	}
	return (sumY - slope*sumX) / n, slope
}

// goals compares the figures with those to reach.
func (r scaleReport) goals() string {
	goals := &bench.Goals{}
	atMost := func(limit, value float64, n int, what, unit string) {
		if limit > 0 {
			goals.Add(value <= limit, "%d Machines: %s %.1f %s, at most %.0f %s", n, what, value, unit, limit, unit)
		}
	}
	for i := range r.Results {
		one := &r.Results[i]
		n, want := one.Machines, scaleGoals[one.Machines]
		if !one.Static {
			goals.Add(one.Ratio >= wantScaleRatio, "%d Machines: %.2f of the floor's speed, at least %.1f", n, one.Ratio, wantScaleRatio)
			goals.Add(one.Worst >= wantScaleWorst, "%d Machines: %.2f of the floor's speed in the worst round, at least %.1f", n, one.Worst, wantScaleWorst)
			once := one.Rollout.MachineWrites == 1 && one.Rollout.NodeWrites == 1
			goals.Add(once, "%d Machines: %.3f Machine and %.3f Node writes each, exactly 1 and 1", n, one.Rollout.MachineWrites, one.Rollout.NodeWrites)
		}
		writes := one.Metadata.Writes + one.All.Writes + one.LeaderWrites + one.Rest.Writes
		goals.Add(writes == 0, "%d Machines: %d writes at starts, at the change of the leader and at rest, none", n, writes)
		atMost(want.metadata, one.Metadata.PeakMemory, n, "peak memory with the capability metadata alone", "MiB")
		atMost(want.all, max(one.All.PeakMemory, one.PeakMemory), n, "peak memory", "MiB")
		atMost(want.restart, one.All.Seconds, n, "restart", "s")
		atMost(want.leader, one.Leader, n, "change of the leader", "s")
		for _, run := range one.Plugin {
			atMost(want.output, run.First, n, "first output of kubectl drover "+run.Command, "s")
			atMost(want.plugin, run.PeakMemory, n, "memory of kubectl drover "+run.Command, "MiB")
			goals.Add(run.Whole == 0, "%d Machines: %d lists of kubectl drover %s without pages, none", n, run.Whole, run.Command)
		}
	}
	return goals.String()
}
