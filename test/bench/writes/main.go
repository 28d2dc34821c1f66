// Command writes measures what one write of a Node and one of a Machine cost an API server in every form that keeps another's change: by content type
// of the request and of the answer, by what the object has in managedFields, by the number of connections and by priority level. It prints a table
// and writes the figures as JSON.
package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

func main() { bench.Main(run) }

// settings are the command line.
type settings struct {
	bench.Settings

	objects, writers, rounds int
	profile                  string
}

func parse() (settings, error) {
	var s settings
	flag.IntVar(&s.objects, "objects", 500, "Machines, and Nodes, that are written in each form")
	flag.IntVar(&s.writers, "writers", 16, "writers that send at the same time")
	flag.IntVar(&s.rounds, "rounds", 5, "how often each form is measured; the forms take turns")
	flag.StringVar(&s.profile, "profile", "", "file for a processor profile of the API server while Machines are written, for go tool pprof")
	if err := s.Parse(); err != nil {
		return s, err
	}
	for name, value := range map[string]int{"objects": s.objects, "writers": s.writers, "rounds": s.rounds} {
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
	r, err := measure(ctx, s)
	if err != nil {
		return err
	}
	fmt.Print(r.table("Node"), r.table("Machine"))
	return s.Write(r)
}
