// Command drains measures how fast nodes are drained when PodDisruptionBudgets are what bounds it: beside the fastest schedule that the
// budgets would have allowed in the same run, and beside one `kubectl drain` per node, all at once. It also measures the operator's memory
// on a large cluster. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

func main() { bench.Main(run) }

// settings are the command line.
type settings struct {
	bench.Settings

	sandbox string
	// nodes are drained at once, as many others take their pods; each application has a budget and as many pods as there are on a node.
	nodes, pods, apps, away, rounds int
	// ready is how long a pod takes to be ready, ends how long to end.
	ready, ends time.Duration
	// large are the nodes of the cluster for the measurement of memory, with podsEach pods each; 0 leaves it out.
	large, podsEach int
	// kubectl drains as many nodes, too, with a process for each.
	kubectl bool
}

func parse() (settings, error) {
	var s settings
	flag.StringVar(&s.sandbox, "sandbox", filepath.Join("bin", "drover-sandbox"), "the sandbox's program, for kubectl")
	flag.IntVar(&s.nodes, "nodes", 50, "nodes that are drained at once")
	flag.IntVar(&s.apps, "apps", 50, "applications, each with a budget")
	flag.IntVar(&s.pods, "pods", 20, "pods of each application")
	flag.IntVar(&s.away, "away", 2, "pods of an application that may be away at once")
	flag.IntVar(&s.rounds, "rounds", 2, "how often it is measured")
	flag.DurationVar(&s.ready, "ready", 10*time.Second, "how long a pod takes to be ready")
	flag.DurationVar(&s.ends, "ends", time.Second, "how long a pod takes to end")
	flag.IntVar(&s.large, "large", 5000, "nodes for the measurement of memory, 0 for none")
	flag.IntVar(&s.podsEach, "pods-each", 10, "pods on each of them")
	flag.BoolVar(&s.kubectl, "kubectl", true, "also drain by kubectl, with a process for each node")
	if err := s.Parse(&s.sandbox); err != nil {
		return s, err
	}
	for name, value := range map[string]int{"nodes": s.nodes, "apps": s.apps, "pods": s.pods, "away": s.away} {
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
	r := report{Settings: describe(s)}
	if s.rounds > 0 {
		if err := measureDrains(ctx, s, &r); err != nil {
			return err
		}
		fmt.Print(r.table())
	}
	if s.large > 0 {
		if err := measureMemory(ctx, s, &r); err != nil {
			return err
		}
	}
	fmt.Print(r.goals())
	return s.Write(r)
}

func describe(s settings) string {
	return fmt.Sprintf("%d nodes at once, %d applications of %d pods, %d of each may be away, ready after %s, ended after %s",
		s.nodes, s.apps, s.pods, s.away, s.ready, s.ends)
}
