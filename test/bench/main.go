// Command bench measures Drover on a control plane of its own, beside what plain clients take on the same machine in the same run:
//
//	go run ./test/bench SCENARIO [flags]
//
// Without arguments it lists the scenarios; docs/benchmarks.md has their figures. It needs the programs that make build builds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// scenario is one set of measurements.
type scenario struct {
	name, measures string
	// rounds is the default of -rounds.
	rounds int
	// declare declares the scenario's own flags and returns the function that measures.
	declare func(*flag.FlagSet) func(context.Context, *bench) error
}

func scenarios() []scenario {
	return []scenario{
		{"rollouts", "roll-outs of labels, annotations and taints to the Machines of a MachineSet, beside bare writers", 5, rollouts},
		{"scale", "roll-outs, restarts, kubectl drover and memory on large clusters with all capabilities", 1, scale},
		{"platform", "the operator with and without parts of its own platform code", 3, platform},
		{"nodegroups", "roll-outs to the Nodes of a NodeGroup, beside bare writers", 5, nodegroups},
		{"drains", "drains of many nodes, beside what PodDisruptionBudgets allow and beside kubectl drain", 2, drains},
		{"machines", "the creation and deletion of Machines, beside bare writers and a client of the vCenter", 2, machines},
		{"replacements", "the replacement of Machines, beside what surge and budget allow", 2, replacements},
		{"upgrades", "what a gated upgrade takes beyond its Jobs and the upgrade of the nodes", 1, upgrades},
	}
}

// bench is one run of a scenario.
type bench struct {
	report

	drover     string
	rounds     int
	window     time.Duration
	processors processors
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctrllog.SetLogger(logr.Discard())
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return len(args) > 0 && s.name == args[0] })
	if i < 0 {
		return errors.New(usage(all))
	}
	b := &bench{}
	flags := flag.NewFlagSet(all[i].name, flag.ContinueOnError)
	flags.StringVar(&b.drover, "drover", filepath.Join("bin", "drover"), "the operator's program")
	flags.IntVar(&b.rounds, "rounds", all[i].rounds, "how often to measure")
	flags.DurationVar(&b.window, "window", time.Minute, "how long to watch the operator at rest")
	file := flags.String("json", "", "file for the figures, in addition to the tables")
	pin := flags.Bool("pin", true, "run the control plane on one half of the processors, and Drover and the bare writers on the other")
	measure := all[i].declare(flags)
	if err := parse(flags, args[1:]); err != nil {
		return err
	}
	if _, err := os.Stat(b.drover); err != nil {
		return fmt.Errorf("%w; run make build", err)
	}
	var err error
	if b.processors, err = splitProcessors(*pin); err != nil {
		return err
	}
	err = measure(ctx, b)
	// Whatever was measured before a failure is worth reading.
	fmt.Printf("\n%s: %s\n%s", all[i].name, b.processors, b.report.String())
	return errors.Join(err, b.write(*file, all[i].name, b.processors.String()))
}

func usage(all []scenario) string {
	text := "usage: go run ./test/bench SCENARIO [flags]; SCENARIO -h lists the flags. The scenarios measure:"
	for _, s := range all {
		text += fmt.Sprintf("\n  %-13s %s", s.name, s.measures)
	}
	return text
}

// parse parses flags. No number may be negative.
func parse(flags *flag.FlagSet, args []string) (err error) {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	flags.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Value.String(), "-") {
			err = errors.Join(err, fmt.Errorf("-%s=%s: must not be negative", f.Name, f.Value))
		}
	})
	return err
}

// progress logs to standard error what the benchmark does; it takes minutes.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// step is a part of a scenario.
type step struct {
	what string
	do   func(context.Context) error
}

// inOrder takes one step after the other.
func inOrder(ctx context.Context, steps []step) error {
	for _, step := range steps {
		progress("%s", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}
