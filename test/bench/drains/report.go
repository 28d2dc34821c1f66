package main

import (
	"fmt"
	"slices"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// What is to be reached.
const (
	wantOfIdeal = 1.05
	// leastOfIdeal is for evictions that are matched with the place of another one.
	leastOfIdeal = 0.95
	wantCalls    = 1.2
	// In MiB, with up to 50,000 Pods and with more.
	wantMemory, wantMemoryLarge = 300, 400
)

// report is everything that was measured.
type report struct {
	Settings string    `json:"settings"`
	Drover   []drained `json:"drover,omitempty"`
	Kubectl  []drained `json:"kubectl,omitempty"`
	Memory   *memory   `json:"memory,omitempty"`
}

// drained is one run: all nodes of one side, at once.
type drained struct {
	// Seconds is how long it took, Ideal how long the fastest schedule that the budgets allowed in this run would have taken.
	Seconds float64 `json:"seconds"`
	Ideal   float64 `json:"idealSeconds"`
	// Idle is how long a place in a budget was free before the next eviction took it, in seconds on the average.
	Idle float64 `json:"idleSeconds"`
	// Evicted are the pods whose eviction was accepted, Blocked the requests that a budget refused, Other those that failed otherwise.
	Evicted int `json:"evicted"`
	Blocked int `json:"blocked"`
	Other   int `json:"other"`
	// Gets are requests for single pods.
	Gets int `json:"gets"`
	// CPU is in seconds, Memory the peak in MiB; of the operator only.
	CPU    float64 `json:"cpuSeconds,omitempty"`
	Memory float64 `json:"peakMemoryMiB,omitempty"`
}

func (d drained) ofIdeal() float64 { return d.Seconds / d.Ideal }

// calls are the eviction requests per pod that no budget refused.
func (d drained) calls() float64 { return float64(d.Evicted+d.Other) / float64(d.Evicted) }

// memory is what the operator takes on a large cluster.
type memory struct {
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Start is how long it took until all was cached, in seconds, Peak in MiB.
	Start float64 `json:"startSeconds"`
	Peak  float64 `json:"peakMiB"`
}

func (r report) table() string {
	var rows [][]string
	line := func(name string, cell func(drained) string) {
		cells := []string{name}
		for _, run := range slices.Concat(r.Drover, r.Kubectl) {
			cells = append(cells, cell(run))
		}
		rows = append(rows, cells)
	}
	names := []string{""}
	for range r.Drover {
		names = append(names, "Drover")
	}
	for range r.Kubectl {
		names = append(names, "kubectl")
	}
	rows = append(rows, names)
	line("all drained after", func(d drained) string { return fmt.Sprintf("%.1f s", d.Seconds) })
	line("the budgets allow", func(d drained) string { return fmt.Sprintf("%.1f s", d.Ideal) })
	line("of that", func(d drained) string { return fmt.Sprintf("%.2f", d.ofIdeal()) })
	line("a place was idle for", func(d drained) string { return fmt.Sprintf("%.2f s", d.Idle) })
	line("pods evicted", func(d drained) string { return fmt.Sprint(d.Evicted) })
	line("requests per pod", func(d drained) string { return fmt.Sprintf("%.2f", d.calls()) })
	line("refused by budgets, per pod", func(d drained) string { return fmt.Sprintf("%.2f", float64(d.Blocked)/float64(d.Evicted)) })
	line("GETs per pod", func(d drained) string { return fmt.Sprintf("%.2f", float64(d.Gets)/float64(d.Evicted)) })
	line("CPU of the operator", func(d drained) string { return orDash(d.CPU, "%.1f s") })
	line("its peak memory", func(d drained) string { return orDash(d.Memory, "%.0f MiB") })
	return "\n" + r.Settings + "\n" + bench.Table(rows)
}

func orDash(value float64, format string) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

// goals compares the figures with those to reach.
func (r report) goals() string {
	goals := &bench.Goals{}
	for i, d := range r.Drover {
		goals.Add(d.ofIdeal() >= leastOfIdeal, "round %d: %.2f of what the budgets allow, which is not less than %.2f unless the schedule is wrong", i+1,
			d.ofIdeal(), leastOfIdeal)
		goals.Add(d.ofIdeal() <= wantOfIdeal, "round %d: %.2f of what the budgets allow, at most %.2f", i+1, d.ofIdeal(), wantOfIdeal)
		goals.Add(d.calls() <= wantCalls, "round %d: %.2f eviction requests per pod that budgets did not refuse, at most %.1f", i+1, d.calls(),
			wantCalls)
		goals.Add(d.Gets == 0, "round %d: %d GETs of pods, none", i+1, d.Gets)
	}
	if m := r.Memory; m != nil {
		want := float64(wantMemory)
		if m.Pods > 50000 {
			want = wantMemoryLarge
		}
		goals.Add(m.Peak <= want, "%d nodes and %d pods: %.0f MiB, at most %.0f MiB (all cached after %.1f s)", m.Nodes, m.Pods, m.Peak, want, m.Start)
	}
	return goals.String()
}
