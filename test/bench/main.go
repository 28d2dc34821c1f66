// Command bench measures roll-outs of pools of several sizes on a control plane of its own, beside the floor of the same machine in the
// same run: writers that do nothing but send the same patches. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	sizes  []int
	json   string
	binary string
	rest   time.Duration
}

func parse() (settings, error) {
	var s settings
	sizes := flag.String("sizes", "500,2000,5000", "numbers of Machines, the last one is also measured at rest")
	flag.StringVar(&s.json, "json", "", "file for the figures, in addition to the table")
	flag.StringVar(&s.binary, "drover", filepath.Join("bin", "drover"), "the operator's program")
	flag.DurationVar(&s.rest, "rest", 2*time.Minute, "how long nothing may be written")
	flag.Parse()
	for text := range strings.SplitSeq(*sizes, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || size < 1 {
			return s, fmt.Errorf("-sizes: %q is no number of Machines", text)
		}
		s.sizes = append(s.sizes, size)
	}
	if _, err := os.Stat(s.binary); err != nil {
		return s, fmt.Errorf("%w; run make build", err)
	}
	return s, nil
}

func run() error {
	s, err := parse()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctrllog.SetLogger(logr.Discard())
	report := report{Go: runtime.Version(), Cores: runtime.NumCPU(), Time: time.Now().UTC().Format(time.RFC3339)}
	for i, size := range s.sizes {
		result, err := measure(ctx, s, size, i == len(s.sizes)-1)
		if err != nil {
			return fmt.Errorf("%d Machines: %w", size, err)
		}
		report.Results = append(report.Results, result)
		fmt.Print(report.table())
	}
	fmt.Print(report.verdict())
	if s.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.json, append(text, '\n'), 0o600)
}

// progress logs what is being done; a benchmark takes minutes.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
