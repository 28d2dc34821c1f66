// Command upgrades measures what a gated upgrade costs beyond its Jobs and the upgrade of the nodes: many nodes, rules whose Jobs end at once,
// and an OpenShift without delays. Beside it stands a floor of the same run: one after the other the same writes, by a bare client. It
// prints a table and writes the figures as JSON.
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

	nodes, rules int
	window       time.Duration
}

// results are all that was measured.
type results struct {
	// Overhead are seconds by node, in the order of their turns: from the version of the one before to the node's release, its Jobs aside.
	Overhead []float64 `json:"overheadSeconds"`
	// Floor are seconds by node that the same writes take one after the other.
	Floor []float64 `json:"floorSeconds"`
	// Requests and Writes are the operator's for each node, Kinds the same by verb, resource and code.
	Requests float64            `json:"requestsPerNode"`
	Writes   float64            `json:"writesPerNode"`
	Kinds    map[string]float64 `json:"requestsByKind"`
	// Resting are the writes while the run waited for its window.
	Resting int `json:"writesAtRest"`
	// Seconds is how long the whole run took.
	Seconds float64 `json:"seconds"`
}

func main() { bench.Main(run) }

func run(ctx context.Context) error {
	var s settings
	flag.IntVar(&s.nodes, "nodes", 200, "nodes that are upgraded")
	flag.IntVar(&s.rules, "rules", 2, "rules, each with a Job that ends at once")
	flag.DurationVar(&s.window, "window", 30*time.Second, "how long the operator is watched while the run waits")
	if err := s.Parse(); err != nil {
		return err
	}
	if s.nodes < 2 || s.rules < 1 {
		return fmt.Errorf("-nodes %d -rules %d: must be 2 or more, and 1 or more", s.nodes, s.rules)
	}
	out, err := measure(ctx, s)
	if err != nil {
		return err
	}
	fmt.Print(table(s, out))
	return s.Write(out)
}
