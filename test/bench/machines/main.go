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
}

// wantShare is what is to be reached of the floor's speed.
const wantShare = 0.7

// figures are what was measured in one direction: up or down.
type figures struct {
	// Seconds is how long Drover took, Floor how long the same writes take without it.
	Seconds float64 `json:"seconds"`
	Floor   float64 `json:"floorSeconds"`
	// Requests are those of the operator for each Machine, reads and the like included; Writes are the writes among them.
	Requests float64 `json:"requestsPerMachine"`
	Writes   float64 `json:"writesPerMachine"`
}

func (f figures) share() float64 { return f.Floor / f.Seconds }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "machines:", err)
		os.Exit(1)
	}
}

func run() error {
	var s settings
	flag.StringVar(&s.json, "json", "", "file for the figures, besides the table")
	flag.StringVar(&s.binary, "drover", filepath.Join("bin", "drover"), "the operator's program")
	flag.IntVar(&s.machines, "machines", 1000, "Machines that are made and removed")
	flag.IntVar(&s.rounds, "rounds", 2, "how often it is measured")
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
	rounds, err := measure(ctx, s)
	if err != nil {
		return err
	}
	fmt.Print(table(s, rounds))
	if s.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(rounds, "", "  ")
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

func table(s settings, rounds []round) string {
	text := fmt.Sprintf("\n%d Machines\n%28s%12s%12s%14s%12s\n", s.machines, "Drover", "floor", "share", "requests", "writes")
	line := func(name string, f figures) {
		text += fmt.Sprintf("%8s%18.1f s%10.1f s%12.2f%14.2f%12.2f\n", name, f.Seconds, f.Floor, f.share(), f.Requests, f.Writes)
	}
	verdict := "\nTo reach:\n"
	for i, r := range rounds {
		line("up", r.Up)
		line("down", r.Down)
		for name, f := range map[string]figures{"up": r.Up, "down": r.Down} {
			word := "reached"
			if f.share() < wantShare {
				word = "MISSED "
			}
			verdict += fmt.Sprintf("  %s  round %d, %s: %.2f of the floor's speed, at least %.1f\n", word, i+1, name, f.share(), wantShare)
		}
	}
	return text + verdict
}
