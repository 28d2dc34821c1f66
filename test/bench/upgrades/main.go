// Command upgrades measures what a gated upgrade costs beyond its Jobs and the upgrade of the nodes: many nodes, rules whose Jobs end at once,
// and an OpenShift without delays. Beside it stands a floor of the same run: one after the other the same writes, by a bare client. It
// prints a table and writes the figures as JSON.
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
	json, binary string
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

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "upgrades:", err)
		os.Exit(1)
	}
}

func run() error {
	var s settings
	flag.StringVar(&s.json, "json", "", "file for the figures, in addition to the table")
	flag.StringVar(&s.binary, "drover", filepath.Join("bin", "drover"), "the operator's program")
	flag.IntVar(&s.nodes, "nodes", 200, "nodes that are upgraded")
	flag.IntVar(&s.rules, "rules", 2, "rules, each with a Job that ends at once")
	flag.DurationVar(&s.window, "window", 30*time.Second, "how long the operator is watched while the run waits")
	flag.Parse()
	if s.nodes < 2 || s.rules < 1 {
		return fmt.Errorf("-nodes %d -rules %d: must be 2 or more, and 1 or more", s.nodes, s.rules)
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
