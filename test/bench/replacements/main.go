// Command replacements measures how fast a NodeGroup replaces the Machines of a MachineSet whose template has changed, with the provider kwok, beside
// the fastest schedule that surge and budget allow. The schedule is computed from the times that single Machines take in the same run to boot and to
// go. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

func main() { bench.Main(run) }

// settings are the command line.
type settings struct {
	bench.Settings

	machines, surge, budget, singles, rounds int
	boot, drain                              time.Duration
}

func parse() (settings, error) {
	var s settings
	flag.IntVar(&s.machines, "machines", 200, "Machines that are replaced")
	flag.IntVar(&s.surge, "surge", 10, "Machines beyond those, and how many may be replaced at the same time")
	flag.IntVar(&s.budget, "budget", 5, "Nodes that may be unavailable at the same time")
	flag.DurationVar(&s.boot, "boot", 10*time.Second, "how long an instance takes to its Node")
	flag.DurationVar(&s.drain, "drain", 2*time.Second, "how long a hook keeps a Machine that is deleted")
	flag.IntVar(&s.singles, "singles", 5, "single Machines whose boot and deletion are measured")
	flag.IntVar(&s.rounds, "rounds", 2, "how often the Machines are replaced")
	if err := s.Parse(); err != nil {
		return s, err
	}
	for name, value := range map[string]int{
		"machines": s.machines, "surge": s.surge, "budget": s.budget, "singles": s.singles, "rounds": s.rounds,
	} {
		if value < 1 {
			return s, fmt.Errorf("-%s %d: must be 1 or more", name, value)
		}
	}
	return s, nil
}

func run(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	r := &report{Machines: s.machines, Surge: s.surge, Budget: s.budget}
	if err := measure(ctx, s, r); err != nil {
		return err
	}
	fmt.Print(r.table(), r.goals())
	return s.Write(r)
}
