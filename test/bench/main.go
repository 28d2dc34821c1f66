// Command bench measures roll-outs of pools of several sizes on a control plane of its own, beside the floor of the same machine in the
// same run: writers that do nothing but send the same patches. It prints a table and writes the figures as JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
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

	sizes, static []int
	rest          time.Duration
	scale         bool
	rounds        int
	// plugin is the program of kubectl drover.
	plugin string
}

func parse() (settings, error) {
	var s settings
	sizes := flag.String("sizes", "500,2000,5000", "numbers of Machines, the last one is also measured at rest")
	flag.BoolVar(&s.scale, "scale", false, "measure with all capabilities, a roll-out to a hundredth of the Machines, and a change of the leader")
	static := flag.String("static", "", "numbers of Machines whose Nodes send no heartbeats, with -scale")
	flag.IntVar(&s.rounds, "rounds", 1, "how often a roll-out to all Machines is measured, with -scale")
	flag.DurationVar(&s.rest, "rest", 2*time.Minute, "how long nothing may be written")
	flag.StringVar(&s.plugin, "plugin", filepath.Join("bin", "kubectl-drover"), "the program of kubectl drover, for -scale")
	err := s.Parse(&s.plugin)
	if err == nil {
		s.sizes, err = parseSizes("-sizes", *sizes)
	}
	if err == nil {
		s.static, err = parseSizes("-static", *static)
	}
	if err == nil && s.rounds < 1 {
		err = errors.New("-rounds: want 1 or more")
	}
	return s, err
}

// parseSizes reads numbers of Machines; an empty text is none.
func parseSizes(name, text string) (sizes []int, err error) {
	for text := range strings.SplitSeq(text, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		size, err := strconv.Atoi(text)
		if err != nil || size < 1 {
			return nil, fmt.Errorf("%s: %q is no number of Machines", name, text)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

func run(ctx context.Context) error {
	s, err := parse()
	if err != nil {
		return err
	}
	if s.scale {
		return runScale(ctx, s)
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
