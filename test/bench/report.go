package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// The figures to reach (seconds, ratios, MiB).
const (
	wantRatio        = 0.85
	wantRestart      = 20.0
	wantMemory       = 200.0
	wantDriftSeconds = 1.0
)

// report is everything that was measured.
type report struct {
	Go      string   `json:"go"`
	Cores   int      `json:"cores"`
	Time    string   `json:"time"`
	Results []result `json:"results"`
}

// result is what was measured for one size. Times are seconds from the patch of the MachineSet.
type result struct {
	Machines int `json:"machines"`
	// Floor are the runs of the plain writers, one before the operator's first and one after each of the operator's.
	Floor []rollout `json:"floor"`
	// Rollout is the operator without its rate limit, in the round in the middle.
	Rollout rollout `json:"rollout"`
	// Ratio is the floor's time (mean of the one before and the one after) by the operator's, in the round in the middle; Worst that of the
	// worst round.
	Ratio float64 `json:"ratio"`
	Worst float64 `json:"worstRatio"`
	// CPUSeconds is what the operator used for the roll-out, per thousand Machines.
	CPUSeconds float64 `json:"cpuSecondsPerThousand"`
	// Restart is from the start of the process to the moment when it knows every Machine as synced; RestartWrites is what it wrote.
	Restart       float64 `json:"restartSeconds"`
	RestartWrites int     `json:"restartWrites"`
	// CatchUp is the part of it in which the caches were compared with the API server.
	CatchUp float64 `json:"catchUpSeconds"`
	// PeakMemory is the operator's largest resident size in MiB over all of this.
	PeakMemory float64 `json:"peakMemoryMiB"`
	// Limited is a roll-out under the default rate limit, in which single Nodes were changed by hand.
	Limited rollout `json:"limited"`
	// Drift are the times until such a manual edit was reverted.
	Drift spread `json:"drift"`
	// Rest is nil where it was not measured.
	Rest *atRest `json:"rest,omitempty"`
}

// rollout is one run from the change to the last Node.
type rollout struct {
	Seconds float64 `json:"seconds"`
	// Ratio is the floor's time by this one, where there is a floor to compare with.
	Ratio float64 `json:"ratio,omitempty"`
	// Nodes is the time until each Node was written.
	Nodes spread `json:"nodes"`
	// MachineWrites and NodeWrites are requests per Machine, all answers counted.
	MachineWrites float64 `json:"machineWritesPerMachine"`
	NodeWrites    float64 `json:"nodeWritesPerMachine"`
	// OtherRequests is the number of all other requests.
	OtherRequests int `json:"otherRequests"`
	// Conflicts is the number of writes that were answered otherwise than with 200.
	Conflicts int `json:"conflicts"`
}

type spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// atRest is a while with nothing to do.
type atRest struct {
	Seconds    float64 `json:"seconds"`
	Writes     int     `json:"writes"`
	Leases     int     `json:"leaseRenewals"`
	Heartbeats int     `json:"nodeHeartbeats"`
	Cores      float64 `json:"cores"`
}

func (r report) table() string {
	var rows [][]string
	line := func(name string, cell func(result) string) {
		cells := []string{name}
		for _, result := range r.Results {
			cells = append(cells, cell(result))
		}
		rows = append(rows, cells)
	}
	seconds := func(value float64) string { return fmt.Sprintf("%.2f s", value) }
	line("Machines", func(r result) string { return fmt.Sprint(r.Machines) })
	line("floor, fastest and slowest", func(r result) string {
		slower := func(a, b rollout) int { return cmp.Compare(a.Seconds, b.Seconds) }
		return fmt.Sprintf("%.2f s, %.2f s", slices.MinFunc(r.Floor, slower).Seconds, slices.MaxFunc(r.Floor, slower).Seconds)
	})
	line("last Node", func(r result) string { return seconds(r.Rollout.Seconds) })
	line("share of the floor's speed (worst)", func(r result) string { return fmt.Sprintf("%.2f (%.2f)", r.Ratio, r.Worst) })
	line("per Node p50", func(r result) string { return seconds(r.Rollout.Nodes.P50) })
	line("per Node p99", func(r result) string { return seconds(r.Rollout.Nodes.P99) })
	line("writes per Machine", func(r result) string {
		return fmt.Sprintf("%.3f + %.3f", r.Rollout.MachineWrites, r.Rollout.NodeWrites)
	})
	line("other requests", func(r result) string { return fmt.Sprint(r.Rollout.OtherRequests) })
	line("CPU per 1000 Machines", func(r result) string { return seconds(r.CPUSeconds) })
	line("restart, nothing to do", func(r result) string { return fmt.Sprintf("%.2f s, %d writes", r.Restart, r.RestartWrites) })
	line("of that, caches compared", func(r result) string { return seconds(r.CatchUp) })
	line("peak memory", func(r result) string { return fmt.Sprintf("%.0f MiB", r.PeakMemory) })
	line("with the default limit", func(r result) string { return seconds(r.Limited.Seconds) })
	line("a manual edit reverted, p50", func(r result) string { return seconds(r.Drift.P50) })
	line("a manual edit reverted, max", func(r result) string { return seconds(r.Drift.Max) })
	line("at rest", func(r result) string {
		if r.Rest == nil {
			return "-"
		}
		return fmt.Sprintf("%.0f s, %d writes, %.3f cores", r.Rest.Seconds, r.Rest.Writes, r.Rest.Cores)
	})
	return "\n" + bench.Table(rows)
}

// goals compares the figures with those to reach.
func (r report) goals() string {
	goals := &bench.Goals{}
	for _, result := range r.Results {
		n := result.Machines
		goals.Add(result.Ratio >= wantRatio, "%d Machines: %.2f of the floor's speed, at least %.2f", n, result.Ratio, wantRatio)
		once := result.Rollout.MachineWrites == 1 && result.Rollout.NodeWrites == 1
		goals.Add(once, "%d Machines: %.3f Machine and %.3f Node writes each, exactly 1 and 1", n, result.Rollout.MachineWrites, result.Rollout.NodeWrites)
		goals.Add(result.RestartWrites == 0, "%d Machines: %d writes on restart, none", n, result.RestartWrites)
		goals.Add(result.Restart <= wantRestart, "%d Machines: restart in %.1f s, at most %.0f s", n, result.Restart, wantRestart)
		goals.Add(result.PeakMemory <= wantMemory, "%d Machines: %.0f MiB, at most %.0f MiB", n, result.PeakMemory, wantMemory)
		goals.Add(result.Drift.Max < wantDriftSeconds, "%d Machines: a manual edit reverted in %.2f s at most, under %.0f s",
			n, result.Drift.Max, wantDriftSeconds)
		if result.Rest != nil {
			goals.Add(result.Rest.Writes == 0, "%d Machines: %d writes in %.0f s at rest, none", n, result.Rest.Writes, result.Rest.Seconds)
		}
	}
	return goals.String()
}
