package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/operator/fault"
)

// The names under which config/ installs the operator.
const (
	SystemNamespace = "drover-system"
	ServiceAccount  = "drover"
	// User is the operator's name in the audit log.
	User = "system:serviceaccount:" + SystemNamespace + ":" + ServiceAccount
)

// Options say how the operator is run.
type Options struct {
	// Args are added to its command line.
	Args []string
	// Config is how it reaches the API server; nil is the shipped service account.
	Config *rest.Config
	// Faults are what goes wrong in its connection.
	Faults fault.Faults
	// Env is added to its environment.
	Env []string
	// Elect turns leader election on, which is off by default to save its time.
	Elect bool
	// Binary is the program to run instead of test/operator; benchmarks measure the program that is released.
	Binary string
	// AllProviders says that the program serves all its providers, and knows no flag for them.
	AllProviders bool
}

// Operator is a running operator.
type Operator struct {
	// Probes and Metrics are the base URLs of its endpoints.
	Probes, Metrics string
	// PID is the number of its process.
	PID int

	command *exec.Cmd
	input   io.Closer
	log     *logBuffer
	ended   chan struct{}
	err     error
}

// WithConfig returns the argument of an operator that has it read a configuration file with these fields.
func WithConfig(t testing.TB, fields string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover.yaml")
	text := "apiVersion: config.drover.dev/v1alpha1\nkind: DroverConfiguration\n" + fields + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=" + path
}

// Start starts an operator without waiting for it. It is stopped when the test ends.
func Start(t testing.TB, c *cluster.Cluster, options Options) *Operator {
	t.Helper()
	operator, err := Launch(t.Context(), c, t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := operator.Stop(); err != nil {
			t.Errorf("stopping the operator: %v", err)
		}
		if t.Failed() {
			t.Logf("the operator's log:\n%s", operator.Log())
		}
	})
	return operator
}

// Launch is Start for callers that have no test; the caller stops it.
func Launch(ctx context.Context, c *cluster.Cluster, dir string, options Options) (*Operator, error) {
	config := options.Config
	if config == nil {
		var err error
		if config, err = c.AsServiceAccount(ctx, SystemNamespace, ServiceAccount); err != nil {
			return nil, err
		}
	}
	kubeconfig := filepath.Join(dir, "operator.kubeconfig")
	if err := cluster.WriteKubeconfig(config, kubeconfig); err != nil {
		return nil, err
	}
	probes, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	metrics, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	args := []string{
		"--kubeconfig=" + kubeconfig, "--health-probe-bind-address=" + probes, "--metrics-bind-address=" + metrics,
		fmt.Sprintf("--leader-elect=%t", options.Elect), "--leader-elect-namespace=" + SystemNamespace,
		// Several operators run side by side here; a test of the webhook gives each an address of its own.
		"--webhook-bind-address=0",
	}
	if !options.AllProviders && !slices.ContainsFunc(options.Args, func(arg string) bool { return strings.HasPrefix(arg, "--providers") }) {
		args = append(args, "--providers=*,kwok")
	}
	if !slices.ContainsFunc(options.Args, func(arg string) bool { return strings.HasPrefix(arg, "--controllers") }) {
		// The pools of most tests are made by hand, without a provider: the machine controllers would take them for their own.
		args = append(args, "--controllers=*,-machines")
	}
	binary := options.Binary
	if binary == "" {
		if binary, err = program(); err != nil {
			return nil, err
		}
	}
	o := &Operator{
		Probes: "http://" + probes, Metrics: "https://" + metrics, log: &logBuffer{}, ended: make(chan struct{}),
		command: exec.Command(binary, append(args, options.Args...)...),
	}
	return o, o.run(options)
}

// raceDetector has the race detector wait a moment for reports of other threads when the process ends; the default is a second, and tests end
// hundreds of operators.
const raceDetector = "GORACE=atexit_sleep_ms=100"

func (o *Operator) run(options Options) error {
	// What the user sets comes later, and counts.
	o.command.Env = append([]string{raceDetector}, os.Environ()...)
	o.command.Env = append(o.command.Env, "OPERATOR_NAMESPACE="+SystemNamespace)
	o.command.Env = append(append(o.command.Env, options.Faults.Environment()...), options.Env...)
	o.command.Stdout, o.command.Stderr = o.log, o.log
	o.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if options.Binary != "" {
		// A thread may end before the process does, and the signal comes with the thread; only test/operator watches its input.
		o.command.SysProcAttr.Pdeathsig = syscall.SIGTERM
	}
	input, err := o.command.StdinPipe()
	if err != nil {
		return err
	}
	o.input = input
	if err := o.command.Start(); err != nil {
		return fmt.Errorf("starting the operator: %w", err)
	}
	o.PID = o.command.Process.Pid
	go func() {
		o.err = o.command.Wait()
		close(o.ended)
	}()
	return nil
}

// Ready waits until the operator says on /readyz that it is ready.
func (o *Operator) Ready(ctx context.Context) error {
	return o.await(ctx, func(_ string, code int) bool { return code == http.StatusOK })
}

// Says waits until /readyz?verbose has a text in it.
func (o *Operator) Says(ctx context.Context, text string) error {
	return o.await(ctx, func(body string, _ int) bool { return strings.Contains(body, text) })
}

func (o *Operator) await(ctx context.Context, done func(body string, code int) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := WaitFor(ctx, func() error {
		select {
		case <-o.ended:
			cancel()
			return fmt.Errorf("the operator ended: %w", errors.Join(o.err, os.ErrProcessDone))
		default:
		}
		body, code, err := get(ctx, o.Probes+"/readyz?verbose")
		if err == nil && !done(body, code) {
			err = fmt.Errorf("/readyz says:\n%s", body)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("waiting for the operator: %w; its log:\n%s", err, o.Log())
	}
	return nil
}

func get(ctx context.Context, url string) (body string, code int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return string(text), response.StatusCode, err
}

// Signal sends a signal to the operator.
func (o *Operator) Signal(sig syscall.Signal) error {
	if err := o.command.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling the operator: %w", err)
	}
	return nil
}

// Kill ends the operator as a crash does, and waits until it is gone.
func (o *Operator) Kill() error {
	if err := o.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-o.ended
	// Waiting for the process has usually closed it.
	_ = o.input.Close()
	return nil
}

// Stop asks the operator to end and waits until it has ended. It is not an error if the operator ended before because it was killed, or because it
// could not renew its lease in time, as on a busy machine. It is an error if the operator fails or the race detector reports a race.
func (o *Operator) Stop() error {
	if err := o.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-o.ended:
	case <-time.After(Patience):
		return errors.Join(fmt.Errorf("the operator did not end within %s after SIGTERM", Patience), o.Kill())
	}
	if strings.Contains(o.Log(), "WARNING: DATA RACE") {
		return fmt.Errorf("the race detector found a race in the operator:\n%s", o.Log())
	}
	var exit *exec.ExitError
	if errors.As(o.err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return nil
		}
		if strings.HasSuffix(strings.TrimSpace(o.Log()), leadershipLost) {
			return nil
		}
	}
	return o.err
}

// leadershipLost is the last line of an operator that could not renew its lease in time.
const leadershipLost = "drover: leader election lost"

// Ended is closed when the operator's process is gone.
func (o *Operator) Ended() <-chan struct{} { return o.ended }

// Log returns what the operator has logged so far.
func (o *Operator) Log() string { return o.log.String() }

// logBuffer collects a process's output.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to what has been collected.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
