// Command machines measures how fast a MachineSet makes and removes Machines with the provider kwok, beside a floor of the same run: sixteen
// writers that do nothing but send as many writes of the same kinds, under the same roles. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// settings are the command line.
type settings struct {
	bench.Settings

	machines, rounds int
	stuck, rest      int
	window           time.Duration
	// vsphere is how many Machines are made on a vCenter, and clone how long each clone takes there.
	vsphere int
	clone   time.Duration
}

// results are all that was measured.
type results struct {
	Rounds []round `json:"rounds"`
	Stuck  *stuck  `json:"stuck,omitempty"`
	Rest   *atRest `json:"rest,omitempty"`
	// VSphere is about Machines on a vCenter.
	VSphere *vsphere `json:"vsphere,omitempty"`
}

// figures are what was measured in one direction: up or down.
type figures struct {
	// Seconds is how long Drover took, Floor how long the same writes take without it.
	Seconds float64 `json:"seconds"`
	Floor   float64 `json:"floorSeconds"`
	// Requests are those of the operator for each Machine, reads and the like included; Writes are the writes among them.
	Requests float64 `json:"requestsPerMachine"`
	Writes   float64 `json:"writesPerMachine"`
	// Refused are the writes among them that the API server refused.
	Refused float64 `json:"refusedWritesPerMachine"`
	// Kinds are all requests of the operator for each Machine, by verb, resource and the code of the answer.
	Kinds map[string]float64 `json:"requestsByKind"`
}

func (f figures) share() float64 { return f.Floor / f.Seconds }

// refused is how many writes were refused for each Machine; one or two of a whole run are the start of the operator.
func (f figures) refused() float64 {
	if f.Refused < slackWrites {
		return 0
	}
	return f.Refused
}

func main() { bench.Main(run) }

func run(ctx context.Context) error {
	var s settings
	flag.IntVar(&s.machines, "machines", 1000, "Machines that are made and removed")
	flag.IntVar(&s.rounds, "rounds", 2, "how often it is measured")
	flag.IntVar(&s.stuck, "stuck", 500, "Machines whose drains are stuck while others come and go; 0 leaves that out")
	flag.IntVar(&s.rest, "rest", 5000, "Machines at rest; 0 leaves that out")
	flag.DurationVar(&s.window, "window", time.Minute, "how long the operator is watched at rest")
	flag.IntVar(&s.vsphere, "vsphere", 160, "Machines that are made and removed on a vCenter; 0 leaves that out")
	flag.DurationVar(&s.clone, "vsphere-clone", 5*time.Second, "how long a clone takes there")
	if err := s.Parse(); err != nil {
		return err
	}
	if s.machines < 1 || s.rounds < 0 {
		return fmt.Errorf("-machines %d -rounds %d: there must be 1 Machine or more, and no negative number of rounds", s.machines, s.rounds)
	}
	out, err := measure(ctx, s)
	if err != nil {
		return err
	}
	fmt.Print(table(s, out))
	return s.Write(out)
}

// round is one time up and down.
type round struct {
	Up   figures `json:"up"`
	Down figures `json:"down"`
}
