package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processID identifies a process uniquely: a number alone may be given to another process after this one ended. The zero
// value names none.
type processID struct {
	PID int `json:"pid"`
	// Started is the time of its start in clock ticks after the boot of the machine.
	Started uint64 `json:"started"`
	// Boot is the identity of that boot.
	Boot string `json:"boot"`
}

// procStat is what /proc/PID/stat says about a process.
type procStat struct {
	state   string // one letter; Z is a process that ended and whose parent has not asked how
	threads int    // how many have not ended yet, the one that the process began with counted in any case
	started uint64 // clock ticks after boot
	memory  int64  // resident bytes
}

// identify returns the identity of the running process with the given number.
func identify(pid int) (processID, error) {
	stat, err := readStat(pid)
	if err != nil {
		return processID{}, err
	}
	boot, err := bootID()
	return processID{PID: pid, Started: stat.started, Boot: boot}, err
}

// stat returns what is known about the process, or false when it ended.
func (p processID) stat() (procStat, bool) {
	if p.PID <= 0 {
		return procStat{}, false
	}
	boot, err := bootID()
	if err != nil || boot != p.Boot {
		return procStat{}, false
	}
	stat, err := readStat(p.PID)
	if err != nil || stat.started != p.Started || stat.ended() {
		return procStat{}, false
	}
	return stat, true
}

// ended reports whether nothing of the process runs any more. The first of its threads may have ended before the others, and until the last of
// them has, its files and ports are open.
func (s procStat) ended() bool { return s.state == "X" || s.state == "Z" && s.threads <= 1 }

func (p processID) alive() bool {
	_, ok := p.stat()
	return ok
}

// signal sends a signal to this very process. It gives os.ErrProcessDone when the process ended.
func (p processID) signal(sig syscall.Signal) error {
	// The handle is opened before the identity is checked and stands for one process, so that the signal cannot reach
	// a later process with the same number.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("cluster: opening process %d: %w", p.PID, err)
	}
	defer func() { _ = handle.Release() }()
	if !p.alive() {
		return os.ErrProcessDone
	}
	if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cluster: sending %v to process %d: %w", sig, p.PID, err)
	}
	return nil
}

func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, fmt.Errorf("cluster: reading the start time of process %d (it needs Linux): %w", pid, err)
	}
	// The second field is the program's name in parentheses, which may itself contain anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	const state, threads, started, resident = 0, 17, 19, 21
	if len(fields) <= resident {
		return procStat{}, fmt.Errorf("cluster: /proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	ticks, err := strconv.ParseUint(fields[started], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("cluster: start time in /proc/%d/stat: %w", pid, err)
	}
	pages, err := strconv.ParseInt(fields[resident], 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("cluster: memory in /proc/%d/stat: %w", pid, err)
	}
	count, err := strconv.Atoi(fields[threads])
	if err != nil {
		return procStat{}, fmt.Errorf("cluster: threads in /proc/%d/stat: %w", pid, err)
	}
	return procStat{state: fields[state], threads: count, started: ticks, memory: pages * int64(os.Getpagesize())}, nil
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cluster: reading the identity of the boot (it needs Linux): %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
