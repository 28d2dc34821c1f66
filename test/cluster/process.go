package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-io/drover/test/eventually"
)

// LifelineEnv is the environment variable that gives a process of drover-sandbox the number of an inherited pipe. The
// process ends when the other end of the pipe closes, which is when the process that started it ends. Only
// drover-sandbox reads it.
const LifelineEnv = "DROVER_SANDBOX_LIFELINE"

// MindCommand is the hidden command of drover-sandbox that ends a process which cannot watch a lifeline itself. Its
// arguments are the number and the start time of that process.
const MindCommand = "mind-process"

// child is a component's process that this process started.
type child struct {
	id   processID
	done chan struct{} // closed when the process ended
	err  error         // how it ended; set before done is closed
}

// spawn starts a component's process without waiting for it to be ready.
func (c *Cluster) spawn(component string) error {
	found := findProgram(component, c.binary)
	if found.external {
		c.opts.logf("%s: using %s from KUBEBUILDER_ASSETS", component, found.path)
	}
	args := slices.Concat(found.prefix, arguments(component, c.layout, c.state))
	started, err := launch(c.command(found.path, args), component, c.layout.log(component))
	if err != nil {
		return err
	}
	if found.external && c.lifeline != nil {
		if err := c.mind(started.id); err != nil {
			_ = started.id.signal(syscall.SIGKILL)
			return err
		}
	}
	return c.own(component, started)
}

// launch starts a process that writes its log to the end of a file.
func launch(command *exec.Cmd, name, log string) (*child, error) {
	output, err := os.OpenFile(filepath.Clean(log), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: opening the log of %s: %w", name, err)
	}
	defer func() { _ = output.Close() }()
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("cluster: starting %s: %w", name, err)
	}
	id, err := identify(command.Process.Pid)
	if err != nil {
		_ = command.Process.Kill()
		return nil, fmt.Errorf("cluster: starting %s: %w", name, err)
	}
	started := &child{id: id, done: make(chan struct{})}
	go func() {
		started.err = command.Wait()
		close(started.done)
	}()
	return started, nil
}

// own notes a process as one of this control plane.
func (c *Cluster) own(component string, started *child) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.children[component], c.state.Processes[component] = started, started.id
	return c.state.save(c.layout)
}

// command prepares a process in a session of its own, so that a signal from the terminal does not reach it, and with
// an environment that holds nothing but what it needs: etcd and kwok read options from theirs.
func (c *Cluster) command(path string, args []string) *exec.Cmd {
	command := exec.Command(path, args...)
	command.Dir = c.layout.dir
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Env = []string{"HOME=" + c.layout.dir}
	for _, name := range []string{"PATH", "TMPDIR", "GOMAXPROCS", "GOGC", "GOMEMLIMIT"} {
		if value, ok := os.LookupEnv(name); ok {
			command.Env = append(command.Env, name+"="+value)
		}
	}
	if c.lifeline != nil {
		// The first of the extra files is number 3 in the new process.
		command.ExtraFiles = []*os.File{c.lifeline.read}
		command.Env = append(command.Env, LifelineEnv+"=3")
	}
	return command
}

// mind starts a process that ends the given one together with this process.
func (c *Cluster) mind(id processID) error {
	command := c.command(c.binary, []string{MindCommand, strconv.Itoa(id.PID), strconv.FormatUint(id.Started, 10)})
	if err := command.Start(); err != nil {
		return fmt.Errorf("cluster: starting the process that minds process %d: %w", id.PID, err)
	}
	go func() { _ = command.Wait() }()
	return nil
}

// EndProcess kills the process with the given number if it started at the given time, in clock ticks after boot. It is
// what MindCommand does at the end.
func EndProcess(pid int, started uint64) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	return processID{PID: pid, Started: started, Boot: boot}.signal(syscall.SIGKILL)
}

// lifeline is a pipe. This process holds the writing end and never writes.
type lifeline struct{ read, write *os.File }

func newLifeline() (*lifeline, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cluster: making a pipe: %w", err)
	}
	return &lifeline{read: read, write: write}, nil
}

func (l *lifeline) close() {
	if l != nil {
		_ = l.read.Close()
		_ = l.write.Close()
	}
}

// pollInterval is how often a condition is looked at that gives no notice of its own.
const pollInterval = 20 * time.Millisecond

// waitGone waits until a process ended and reports whether it did within the time.
func waitGone(id processID, limit time.Duration) bool {
	return eventually.Until(context.Background(), limit, pollInterval, func() error {
		if id.alive() {
			return fmt.Errorf("process %d runs", id.PID)
		}
		return nil
	}) == nil
}

// logTail returns the last lines of a component's log, indented, for an error message.
func (l layout) logTail(component string) string {
	const lines = 15
	data, err := os.ReadFile(l.log(component))
	if err != nil {
		return "  (its log cannot be read: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	all = all[max(0, len(all)-lines):]
	return "  " + strings.Join(all, "\n  ")
}
