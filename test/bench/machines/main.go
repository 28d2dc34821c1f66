// Command machines measures how fast a MachineSet makes and removes Machines with the provider kwok, beside a floor of the same run: sixteen
// writers that do nothing but send as many writes of the same kinds, under the same roles. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// settings are the command line.
type settings struct {
	json, binary     string
	machines, rounds int
	stuck, rest      int
	window           time.Duration
}

// results are all that was measured.
type results struct {
	Rounds []round `json:"rounds"`
	Stuck  *stuck  `json:"stuck,omitempty"`
	Rest   *atRest `json:"rest,omitempty"`
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

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "machines:", err)
		os.Exit(1)
	}
}

func run() error {
	var s settings
	flag.StringVar(&s.json, "json", "", "file for the figures, in addition to the table")
	flag.StringVar(&s.binary, "drover", filepath.Join("bin", "drover"), "the operator's program")
	flag.IntVar(&s.machines, "machines", 1000, "Machines that are made and removed")
	flag.IntVar(&s.rounds, "rounds", 2, "how often it is measured")
	flag.IntVar(&s.stuck, "stuck", 500, "Machines whose drains are stuck while others come and go; 0 leaves that out")
	flag.IntVar(&s.rest, "rest", 5000, "Machines at rest; 0 leaves that out")
	flag.DurationVar(&s.window, "window", time.Minute, "how long the operator is watched at rest")
	flag.Parse()
	if s.machines < 1 || s.rounds < 1 {
		return fmt.Errorf("-machines %d -rounds %d: both must be 1 or more", s.machines, s.rounds)
	}
	if _, err := os.Stat(s.binary); err != nil {
		return fmt.Errorf("%w; run make build", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctrllog.SetLogger(logr.Discard())
	out, err := measure(ctx, s)
	if err != nil {
		return err
	}
	fmt.Print(table(s, out))
	if s.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return err
	}
	//nolint:gosec // figures are for everybody to read
	return os.WriteFile(s.json, append(text, '\n'), 0o644)
}

// progress says on standard error what happens now.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
}

// round is one time up and down.
type round struct {
	Up   figures `json:"up"`
	Down figures `json:"down"`
}
