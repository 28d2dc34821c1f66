// Package bench has what all benchmarks share: the command line, the control plane that they measure on, and the comparison of their figures
// with the goals.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// Settings are the part of the command line that all benchmarks have.
type Settings struct {
	// JSON is the file for the figures, or empty.
	JSON string
	// Binary is the operator's program.
	Binary string
}

// Parse parses the command line; the caller has declared its own flags before. It fails if a program does not exist.
func (s *Settings) Parse(programs ...*string) error {
	flag.StringVar(&s.JSON, "json", "", "file for the figures, in addition to the table")
	flag.StringVar(&s.Binary, "drover", filepath.Join("bin", "drover"), "the operator's program")
	flag.Parse()
	for _, program := range append(programs, &s.Binary) {
		if _, err := os.Stat(*program); err != nil {
			return fmt.Errorf("%w; run make build", err)
		}
	}
	return nil
}

// Write writes the figures to the file that the command line names, if any.
func (s *Settings) Write(figures any) error {
	if s.JSON == "" {
		return nil
	}
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.JSON, append(text, '\n'), 0o644) //nolint:gosec // every user may read the figures
}

// Main runs a benchmark until it ends or is interrupted.
func Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctrllog.SetLogger(logr.Discard())
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(os.Args[0]), err)
		os.Exit(1)
	}
}

// Progress logs on standard error what is being done; a benchmark takes minutes.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// Table formats rows of cells with columns that are aligned to the right.
func Table(rows [][]string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t")+"\t")
	}
	_ = w.Flush()
	return text.String()
}

// Goals collects figures and whether they are as good as they should be.
type Goals struct{ lines strings.Builder }

// Add adds a goal. The format names the figure and the limit.
func (g *Goals) Add(reached bool, format string, args ...any) {
	word := "reached"
	if !reached {
		word = "MISSED "
	}
	fmt.Fprintf(&g.lines, "  %s  %s\n", word, fmt.Sprintf(format, args...))
}

// String lists the goals.
func (g *Goals) String() string { return "\nTo reach:\n" + g.lines.String() }

// Usage measures how much processor time a process uses in a window, and how long that was.
func Usage(ctx context.Context, pid int, window time.Duration) (took, cpu float64, err error) {
	before, err := CPUSeconds(pid)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := Sleep(ctx, window); err != nil {
		return 0, 0, err
	}
	after, err := CPUSeconds(pid)
	return time.Since(begin).Seconds(), after - before, err
}

// Sleep waits for a time, or for the end of the context, which is an error.
func Sleep(ctx context.Context, window time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	return ctx.Err()
}

// PerSecond returns how many of some events there were in each second. One a second is two events in one second, three in two, and so on.
func PerSecond(at []time.Time) float64 {
	if len(at) < 2 {
		return 0
	}
	slices.SortFunc(at, time.Time.Compare)
	return float64(len(at)-1) / at[len(at)-1].Sub(at[0]).Seconds()
}
