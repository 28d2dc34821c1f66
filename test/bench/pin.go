package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/drover-io/drover/test/cluster"
)

// processors says which processors the control plane has, and which Drover, the bare writers and this program have. On a real cluster they do not
// share any. The zero value lets the kernel decide.
type processors struct{ controlPlane, clients []int }

// String implements fmt.Stringer.
func (p processors) String() string {
	if len(p.clients) == 0 {
		return "processors are not pinned"
	}
	return fmt.Sprintf("the control plane runs on processors %v, Drover and the bare writers on %v", p.controlPlane, p.clients)
}

// splitProcessors halves the processors of this process and pins it to the second half, which everything that it starts inherits.
func splitProcessors(pin bool) (processors, error) {
	if !pin {
		return processors{}, nil
	}
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return processors{}, fmt.Errorf("reading the processors of this process: %w", err)
	}
	p := halve(list(&allowed))
	if len(p.clients) == 0 {
		progress("only one processor is available")
		return p, nil
	}
	// A Go program reads the number of its processors when it starts.
	runtime.GOMAXPROCS(len(p.clients))
	return p, pinProcess(os.Getpid(), p.clients)
}

// halve gives both halves as many processors: a Go program has as many threads as it had processors when it started.
func halve(all []int) processors {
	half := len(all) / 2
	return processors{controlPlane: all[:half], clients: all[half : 2*half]}
}

func list(set *unix.CPUSet) (all []int) {
	for i := 0; len(all) < set.Count(); i++ {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	return all
}

// pinProcess pins all threads of a process. A new thread inherits the processors of the thread that starts it. Once a pass finds all threads pinned,
// nothing is left to do.
func pinProcess(pid int, to []int) error {
	var want unix.CPUSet
	for _, i := range to {
		want.Set(i)
	}
	for changed := true; changed; {
		changed = false
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return fmt.Errorf("pinning process %d: %w", pid, err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				return fmt.Errorf("pinning process %d: %w", pid, err)
			}
			var has unix.CPUSet
			err = unix.SchedGetaffinity(tid, &has)
			if err == nil && has != want {
				changed = true
				err = unix.SchedSetaffinity(tid, &want)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("pinning thread %d of process %d: %w", tid, pid, err)
			}
		}
	}
	return nil
}

// pinControlPlane pins all processes of a control plane, which run in its folder.
func (p processors) pinControlPlane(c *cluster.Cluster) error {
	if len(p.controlPlane) == 0 {
		return nil
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, process := range processes {
		if folder, err := os.Readlink(filepath.Join(process, "cwd")); err != nil || folder != c.Dir() {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			return err
		}
		if err := pinProcess(pid, p.controlPlane); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
