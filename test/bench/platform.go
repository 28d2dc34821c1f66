package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/test/cluster"
)

// variant is the operator without a part of its own platform code: what controller-runtime and client-go do by themselves takes its place.
type variant struct {
	name  string
	edits []edit
}

// edit replaces a text of a file that is there once.
type edit struct{ file, from, to string }

// variants returns the operator as it is, and without each of the parts that this benchmark defends.
func variants() []variant {
	const folder = "internal/operator/"
	return []variant{
		{name: "as it is"},
		{"the default GOGC", []edit{{folder + "operator.go", "debug.SetGCPercent(gcPercent)", "debug.SetGCPercent(100)"}}},
		{"whole objects in the cache", []edit{{folder + "trim.go", "drop(known)", "_ = drop"}}},
		{"one connection", []edit{{folder + "connection.go", "config = rest.CopyConfig(config)", "return config"}}},
		{"recorder of client-go", []edit{
			{folder + "events.go", "r := startRecorder(", "standard = mgr.GetEventRecorderFor(\"drover\") //nolint:staticcheck\n\tr := startRecorder("},
			{folder + "events.go", "about, err := reference", "standard.Event(object, eventType, reason, message)\n\treturn\n\tabout, err := reference"},
			{folder + "events.go", "var _ record.EventRecorder =", "var standard record.EventRecorder\n\nvar _ record.EventRecorder ="},
		}},
		{"lock of client-go", []edit{{folder + "operator.go",
			"if options.LeaderElectionResourceLockInterface, err = newLock(config, election); err != nil {\n\t\t\treturn nil, err\n\t\t}",
			"options.LeaderElectionID, options.LeaderElectionNamespace = election.Name, election.Namespace\n" +
				"options.RetryPeriod = &election.RetryPeriod.Duration"}}},
	}
}

// apply writes the files of a variant into a folder, and returns the file that has go build use them.
func (v variant) apply(folder string) (overlay string, err error) {
	replace := map[string]string{}
	for i, e := range v.edits {
		source, err := filepath.Abs(e.file)
		if err != nil {
			return "", err
		}
		from := source
		if before, again := replace[source]; again {
			from = before
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if found := strings.Count(string(text), e.from); found != 1 {
			return "", fmt.Errorf("%s has %q %d times", e.file, e.from, found)
		}
		replace[source] = filepath.Join(folder, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replace[source], []byte(strings.Replace(string(text), e.from, e.to, 1)), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// build builds the operator of a variant, drover, into a folder that it makes.
func (v variant) build(ctx context.Context, folder string) error {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	overlay, err := v.apply(folder)
	if err != nil {
		return err
	}
	program := filepath.Join(folder, "drover")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-overlay", overlay, "-o", program, "./cmd/drover")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// platform measures the operator with and without the parts of its own platform code.
func platform(flags *flag.FlagSet) func(context.Context, *bench) error {
	sizes := sizesFlag(flags, "sizes", "numbers of Machines", 5000, 20000)
	only := flags.String("only", "", "variants to measure beside the operator as it is, separated by commas; empty for all")
	starts := flags.Bool("starts", false, "measure starts alone; a roll-out to 20,000 Machines takes minutes for each variant")
	return func(ctx context.Context, b *bench) error {
		some, named := variants(), strings.Split(*only, ",")
		if *only != "" {
			some = slices.DeleteFunc(some, func(v variant) bool { return len(v.edits) > 0 && !slices.Contains(named, v.name) })
			if len(some) != len(named)+1 {
				return fmt.Errorf("-only %q: not all of them are variants", *only)
			}
		}
		programs, err := os.MkdirTemp("", "drover-bench-")
		if err != nil {
			return err
		}
		for i, v := range some {
			if err == nil {
				progress("building the operator: %s", v.name)
				err = v.build(ctx, filepath.Join(programs, fmt.Sprint(i)))
			}
		}
		for _, size := range *sizes {
			if err == nil {
				err = b.platformOf(ctx, size, some, programs, *starts)
			}
		}
		return errors.Join(err, os.RemoveAll(programs))
	}
}

// platformOf measures variants on a cluster with so many Machines, one after the other in each round, and reports medians.
func (b *bench) platformOf(ctx context.Context, size int, some []variant, programs string, startsAlone bool) error {
	f := &fleet{pools: poolsOf(size), static: true, args: []string{allCapabilities}}
	shipped := b.drover
	defer func() { b.drover = shipped }()
	return b.onFleet(ctx, f, cluster.Options{}, func() (steps []step) {
		measured := make([][]measuredVariant, len(some))
		for round := range b.rounds {
			for i, v := range some {
				steps = append(steps, step{fmt.Sprintf("round %d of %d: %s", round+1, b.rounds, v.name), func(ctx context.Context) error {
					b.drover = filepath.Join(programs, fmt.Sprint(i), "drover")
					m, err := f.measureVariant(ctx, startsAlone)
					measured[i] = append(measured[i], m)
					return err
				}})
			}
		}
		return append(steps, step{"medians", func(context.Context) error {
			for i, v := range some {
				addMedians(b.column(fmt.Sprintf("%d Machines", size), v.name), measured[i], startsAlone)
			}
			return nil
		}})
	})
}

// measuredVariant is what one round has measured, in seconds and MiB.
type measuredVariant struct {
	restart, restartCPU, restartPeak float64
	rollOut, rollOutCPU, peak        float64
	successor                        float64
}

func addMedians(c column, rounds []measuredVariant, startsAlone bool) {
	figures := []struct {
		name string
		of   func(measuredVariant) float64
		unit unit
	}{
		{"restart", func(m measuredVariant) float64 { return m.restart }, inSeconds},
		{"restart: processor time", func(m measuredVariant) float64 { return m.restartCPU }, inSeconds},
		{"restart: peak memory", func(m measuredVariant) float64 { return m.restartPeak }, inMiB},
		{"roll-out", func(m measuredVariant) float64 { return m.rollOut }, inSeconds},
		{"roll-out: processor time", func(m measuredVariant) float64 { return m.rollOutCPU }, inSeconds},
		{"peak memory", func(m measuredVariant) float64 { return m.peak }, inMiB},
		{"change of the leader", func(m measuredVariant) float64 { return m.successor }, inSeconds},
	}
	if startsAlone {
		figures = figures[:3]
	}
	for _, figure := range figures {
		values := make([]float64, len(rounds))
		for i := range rounds {
			values[i] = figure.of(rounds[i])
		}
		c.add(figure.name, quantile(values, 0.5), figure.unit)
	}
}

// measureVariant measures a start and, unless only that is asked for, a roll-out to all Machines and a change of the leader.
func (f *fleet) measureVariant(ctx context.Context, startAlone bool) (m measuredVariant, err error) {
	return m, f.withSynced(ctx, []string{unlimitedRate}, func(running context.Context, o *operator, at time.Time) error {
		m.restart = at.Sub(o.begun).Seconds()
		if m.restartCPU, err = cpuSeconds(o.PID); err != nil {
			return err
		}
		if m.restartPeak, err = peakMemory(o.PID); err != nil || startAlone {
			return err
		}
		r, err := f.rollOut(running, o, f.machines, func() error { return f.declare(ctx, f.pools...) })
		if err != nil {
			return err
		}
		m.rollOut, m.rollOutCPU = r.lastNode(), r.cpu
		if m.peak, err = peakMemory(o.PID); err != nil {
			return err
		}
		change, err := f.succeed(ctx, o)
		m.successor = change.seconds
		return err
	})
}
