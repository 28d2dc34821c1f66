package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// What is to be reached.
const (
	// wantShare is of the floor's speed.
	wantShare = 0.7
	// wantUp and wantDown are how many writes a Machine may cost to come and to go, events among them.
	wantUp, wantDown = 6, 7
	// slackWrites is how many more they may be for each Machine: the operator writes when it starts, too.
	slackWrites = 0.05
	// wantMemory is in MiB.
	wantMemory = 300
	// wantSeconds is from a Node that turns NotReady to the MachineSet's status.
	wantSeconds = 1
	// wantShareVSphere is of the speed of a client that only clones; wantCreated, wantDeleted and wantRunning are calls of the vCenter for each Machine.
	wantShareVSphere                      = 0.8
	wantCreated, wantDeleted, wantRunning = 5, 3, 0.1
	// wantUnslowed is of the speed without stuck drains; what is below is more than noise.
	wantUnslowed = 0.8
)

// worthNaming is how many requests of a kind there must be for each Machine to be printed.
const worthNaming = 0.02

// page gathers the lines of the report.
type page struct {
	figures, kinds string
	goals          bench.Goals
}

func table(s settings, out *results) string {
	p := &page{}
	if len(out.Rounds) > 0 {
		p.figures = fmt.Sprintf("\n%d Machines\n%28s%12s%12s%14s%12s\n", s.machines, "Drover", "floor", "share", "requests", "writes")
	}
	for i := range out.Rounds {
		p.round(i+1, &out.Rounds[i])
	}
	if t := out.Stuck; t != nil {
		p.figures += fmt.Sprintf("\n%d Machines come and go: %.1f s up and %.1f s down, %.1f s and %.1f s beside %d stuck drains\n",
			t.Machines, t.Before[0], t.Before[1], t.Beside[0], t.Beside[1], s.stuck)
		for i, name := range []string{"up", "down"} {
			share := t.Before[i] / t.Beside[i]
			p.goals.Add(share >= wantUnslowed, "%s beside %d stuck drains: %.2f of the speed without them, at least %.1f", name, s.stuck, share, wantUnslowed)
		}
	}
	if r := out.Rest; r != nil {
		p.figures += fmt.Sprintf("\n%d Machines at rest for %s: %d writes, peak memory %.0f MiB, processor time %.1f s\n", s.rest, s.window, r.Writes,
			r.Memory, r.CPU)
		p.figures += fmt.Sprintf("a Node turns NotReady or Ready: the MachineSet says so after %.2f s (median), %.2f s (worst of %d)\n",
			r.median(), r.worst(), len(r.Seconds))
		p.goals.Add(r.Writes == 0, "%d writes at rest, at most 0", r.Writes)
		p.goals.Add(r.Memory <= wantMemory, "%.0f MiB, at most %d", r.Memory, wantMemory)
		p.goals.Add(r.worst() <= wantSeconds, "%.2f s from Node to MachineSet, at most %d", r.worst(), wantSeconds)
	}
	if v := out.VSphere; v != nil {
		p.vsphere(s, v)
	}
	if p.kinds != "" {
		p.kinds = "\nRequests for each Machine:\n" + p.kinds
	}
	return p.figures + p.kinds + p.goals.String()
}

func (p *page) vsphere(s settings, v *vsphere) {
	const heading = "\n%d Machines on a vCenter whose clones take %s, at most %d at a time\n%10s%12s%12s%12s%16s%18s%14s\n"
	p.figures += fmt.Sprintf(heading, v.Machines, s.clone, clonesAtOnce, "", "Drover", "floor", "share", "calls/Machine", "vCenter's CPU",
		"of the floor")
	for _, direction := range []struct {
		name string
		vsphereFigures
	}{{"up", v.Up}, {"down", v.Down}} {
		f := direction.vsphereFigures
		p.figures += fmt.Sprintf("%10s%10.1f s%10.1f s%12.2f%16.2f%16.1f s%12.1f s\n", direction.name, f.Seconds, f.Floor, f.Floor/f.Seconds, f.Calls,
			f.CPU, f.FloorCPU)
		for _, method := range slices.Sorted(maps.Keys(f.Methods)) {
			p.kinds += fmt.Sprintf("  vCenter, %-4s %6.3f  %s\n", direction.name, f.Methods[method], method)
		}
	}
	p.figures += fmt.Sprintf("at rest for %s: %.0f calls %v, and %.0f of the collector that waits\n", v.Window, sum(v.RestCalls), v.RestCalls,
		v.RestWaits)
	p.goals.Add(v.Up.Floor/v.Up.Seconds >= wantShareVSphere, "on vSphere, up: %.2f of the floor's speed, at least %.1f", v.Up.Floor/v.Up.Seconds,
		wantShareVSphere)
	p.goals.Add(v.Up.Calls <= wantCreated, "on vSphere: %.2f calls for each Machine that comes, at most %d", v.Up.Calls, wantCreated)
	p.goals.Add(v.Down.Calls <= wantDeleted, "on vSphere: %.2f calls for each Machine that goes, at most %d", v.Down.Calls, wantDeleted)
	running := sum(v.RestCalls) / float64(v.Machines)
	p.goals.Add(running <= wantRunning, "on vSphere: %.2f calls for each Machine that runs, at most %.1f", running, wantRunning)
	p.goals.Add(v.Left == 0 && v.Clones == v.Machines, "on vSphere: %d clones for %d Machines, %d virtual machines left", v.Clones, v.Machines, v.Left)
}

func (p *page) round(number int, r *round) {
	for _, direction := range []struct {
		name string
		figures
		writes float64
	}{{"up", r.Up, wantUp}, {"down", r.Down, wantDown}} {
		f := direction.figures
		p.figures += fmt.Sprintf("%8s%18.1f s%10.1f s%12.2f%14.2f%12.2f\n", direction.name, f.Seconds, f.Floor, f.share(), f.Requests, f.Writes)
		p.goals.Add(f.share() >= wantShare, "round %d, %s: %.2f of the floor's speed, at least %.1f", number, direction.name, f.share(), wantShare)
		p.goals.Add(f.Writes <= direction.writes+slackWrites, "round %d, %s: %.2f writes for each Machine, at most %.0f", number, direction.name, f.Writes,
			direction.writes)
		p.goals.Add(f.refused() == 0, "round %d, %s: %.2f of the writes refused for each Machine, at most 0", number, direction.name, f.refused())
		for _, kind := range slices.Sorted(maps.Keys(f.Kinds)) {
			if f.Kinds[kind] >= worthNaming {
				p.kinds += fmt.Sprintf("  round %d, %-4s %6.2f  %s\n", number, direction.name, f.Kinds[kind], kind)
			}
		}
	}
}
