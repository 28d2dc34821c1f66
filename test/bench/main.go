// Command bench measures roll-outs of pools of several sizes on a control plane of its own, beside the floor of the same machine in the
// same run: writers that do nothing but send the same patches. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

func main() { bench.Main(run) }

// settings are the command line.
type settings struct {
	bench.Settings

	sizes []int
	rest  time.Duration
}

func parse() (settings, error) {
	var s settings
	sizes := flag.String("sizes", "500,2000,5000", "numbers of Machines, the last one is also measured at rest")
	flag.DurationVar(&s.rest, "rest", 2*time.Minute, "how long nothing may be written")
	if err := s.Parse(); err != nil {
		return s, err
	}
	for text := range strings.SplitSeq(*sizes, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || size < 1 {
			return s, fmt.Errorf("-sizes: %q is no number of Machines", text)
		}
		s.sizes = append(s.sizes, size)
	}
	return s, nil
}

func run(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	report := report{Go: runtime.Version(), Cores: runtime.NumCPU(), Time: time.Now().UTC().Format(time.RFC3339)}
	for i, size := range s.sizes {
		result, err := measure(ctx, s, size, i == len(s.sizes)-1)
		if err != nil {
			return fmt.Errorf("%d Machines: %w", size, err)
		}
		report.Results = append(report.Results, result)
		fmt.Print(report.table())
	}
	fmt.Print(report.goals())
	return s.Write(report)
}
