package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuSeconds reads how much processor time a process has used.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may contain blanks.
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

// peakMemory reads the largest resident size that a process has had, in MiB.
func peakMemory(pid int) (float64, error) {
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

// quiet waits until a process has taken less than a fifth of one processor for 150 ms. It returns an error when the context ends, and when the
// process has ended or is busy for five minutes.
func quiet(ctx context.Context, pid int) error {
	const window, limit, patience = 150 * time.Millisecond, 0.03, 5 * time.Minute
	begun := time.Now()
	since, before := begun, 0.0
	for time.Since(begun) < patience {
		cpu, err := cpuSeconds(pid)
		switch {
		case err != nil:
			return err
		case since.Equal(begun), cpu-before >= limit:
			since, before = time.Now(), cpu
		case time.Since(since) >= window:
			return nil
		}
		if err := sleep(ctx, window/5); err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d takes more than a fifth of a processor, for %s", pid, patience)
}

// sleep waits for some time. It returns an error when the context ends before.
func sleep(ctx context.Context, window time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(window):
		return nil
	}
}
