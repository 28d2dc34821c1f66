package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPUSeconds reads how much processor time a process has used.
func CPUSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may hold blanks.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const userTime, systemTime, ticksPerSecond = 11, 12, 100
	total := 0.0
	for _, i := range []int{userTime, systemTime} {
		ticks, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		total += ticks / ticksPerSecond
	}
	return total, nil
}

// Quiet waits until a process has taken less than a fifth of one processor for 150 ms. It returns an error when the context ends or the process is
// gone.
func Quiet(ctx context.Context, pid int) error {
	const window, limit = 150 * time.Millisecond, 0.03
	before, err := CPUSeconds(pid)
	for begun := time.Now(); err == nil; {
		if err = Sleep(ctx, window/5); err != nil {
			return err
		}
		var now float64
		if now, err = CPUSeconds(pid); now-before >= limit {
			before, begun = now, time.Now()
		} else if time.Since(begun) >= window {
			return err
		}
	}
	return err
}

// PeakMemory reads the largest resident size that a process has had, in MiB.
func PeakMemory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			return kib / 1024, nil
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}
