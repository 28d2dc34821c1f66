package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-io/drover/test/harness"
)

// stubGo is the program go as hack/build.sh sees it. What it would compile takes until the file release is there.
const stubGo = `#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")/.."
[[ "$1" != -C ]] || shift 2
case "$1" in
env)
	[[ ! -e no-env ]] || { echo "go: no environment" >&2; exit 1; }
	echo stub ;;
list) ;;
build)
	[[ ! -e deaf ]] || trap '' INT
	echo "$$" >>builds
	until [[ -e release || ! -e path/go ]]; do sleep 0.02; done
	folder=""
	for argument in "$@"; do
		[[ "$argument" != */ ]] || folder="$argument"
		if [[ "$argument" == ./cmd/* ]]; then
			rm -f "$folder$(basename "$argument")"
			echo "built by $$" >"$folder$(basename "$argument")"
		fi
	done
	chmod +x "$folder"* ;;
esac
`

// checkout is a folder where hack/build.sh runs.
type checkout struct {
	*testing.T

	folder string
}

func newCheckout(t *testing.T) *checkout {
	t.Helper()
	c := &checkout{t, t.TempDir()}
	script, err := os.ReadFile(filepath.Join(root, "hack/build.sh"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"hack/build.sh": string(script), "path/go": stubGo, "sandbox/go.mod": "require (\n\tk8s.io/kubernetes v1.2.3\n)\n",
		"test/cluster/a.go": "", "test/openshift/a.go": "", "test/realnode/a.go": "", "test/vcenter/a.go": "",
		"api/a.go": "", "internal/apitest/builder/a.go": "", "test/eventually/a.go": "",
		"provider/a.go": "", "provider/kwok/a.go": "", "config/crd/a.yaml": "",
	} {
		c.write(name, content)
	}
	return c
}

func (c *checkout) write(name, content string) {
	c.Helper()
	path := filepath.Join(c.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil { // #nosec G306 -- it is run
		c.Fatal(err)
	}
}

// read returns the content of a file; empty for none.
func (c *checkout) read(name string) string {
	c.Helper()
	content, err := os.ReadFile(filepath.Join(c.folder, name)) // #nosec G304 -- a file of the test's own
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.Fatal(err)
	}
	return string(content)
}

func (c *checkout) eventually(what string, condition func() error) {
	c.Helper()
	if err := harness.WaitFor(c.Context(), condition); err != nil {
		c.Fatalf("%s: %v", what, err)
	}
}

// compiling waits until so many compilations have begun, and returns the process of the last one.
func (c *checkout) compiling(count int) (process int) {
	c.Helper()
	c.eventually("compiling", func() error {
		builds := strings.Fields(c.read("builds"))
		if len(builds) != count {
			return fmt.Errorf("%d compilations, want %d", len(builds), count)
		}
		_, err := fmt.Sscan(builds[count-1], &process)
		return err
	})
	return process
}

// run is one run of hack/build.sh.
type run struct {
	*exec.Cmd

	c      *checkout
	output output
}

// output may be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (c *checkout) start(coreFolder string, args ...string) *run {
	c.Helper()
	// A test that fails ends it.
	ctx, cancel := context.WithTimeout(c.Context(), harness.Patience)
	c.Cleanup(cancel)
	r := &run{Cmd: exec.CommandContext(ctx, filepath.Join(c.folder, "hack/build.sh"), args...), c: c} // #nosec G204 -- a copy of our own
	r.Cancel = func() error { return r.Process.Signal(syscall.SIGTERM) }
	// A process that outlives the script would keep its output open, and the test waiting.
	r.WaitDelay = 10 * time.Second
	r.Env = append(os.Environ(), "PATH="+filepath.Join(c.folder, "path")+":"+os.Getenv("PATH"), "CORE_FOLDER="+coreFolder)
	r.Stdout, r.Stderr = &r.output, &r.output
	if err := r.Start(); err != nil {
		c.Fatal(err)
	}
	return r
}

// ends waits for the end, and checks the exit code.
func (r *run) ends(code int) {
	r.c.Helper()
	err := r.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || r.ProcessState.ExitCode() != code {
		r.c.Errorf("%v: %v, exit code %d, want %d:\n%s", r.Args[1:], err, r.ProcessState.ExitCode(), code, r.output.String())
	}
}

// leavesNothing checks that no temporary folder is left, and none of some compilers.
func (c *checkout) leavesNothing(compilers ...int) {
	c.Helper()
	for _, compiler := range compilers {
		if err := syscall.Kill(compiler, 0); !errors.Is(err, syscall.ESRCH) {
			c.Errorf("compiler %d still runs: %v", compiler, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(c.folder, "bin"))
	if err != nil {
		c.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && entry.Name() != "cache" {
			c.Errorf("bin/%s is left", entry.Name())
		}
	}
}

// TestBuild_TwoAtOnce runs hack/build.sh a second time while the first one compiles: the second one waits, and finds what was built.
func TestBuild_TwoAtOnce(t *testing.T) {
	c := newCheckout(t)
	first := c.start("", "sandbox")
	c.compiling(1)
	second := c.start("", "sandbox")
	c.eventually("the second one waits", func() error {
		if want := fmt.Sprintf("waiting for process %d", first.Process.Pid); !strings.Contains(second.output.String(), want) {
			return fmt.Errorf("it does not say %q: %q", want, second.output.String())
		}
		return nil
	})
	c.write("release", "")
	first.ends(0)
	second.ends(0)
	process := c.compiling(1)
	if got, want := c.read("bin/drover-sandbox"), fmt.Sprintf("built by %d\n", process); got != want {
		t.Errorf("the program is %q, want %q", got, want)
	}
	c.start("", "--check", "sandbox").ends(0)
	c.leavesNothing()
}

// TestBuild_CoreForTwoDemos has two demos build their first control plane: each has a program of its own to remove.
func TestBuild_CoreForTwoDemos(t *testing.T) {
	c := newCheckout(t)
	c.write("release", "")
	folders := []string{t.TempDir(), t.TempDir()}
	var runs []*run
	for _, folder := range folders {
		runs = append(runs, c.start(folder, "programs", "core"))
	}
	for i, r := range runs {
		r.ends(0)
		if _, err := os.Stat(filepath.Join(folders[i], "drover-sandbox-core")); err != nil {
			t.Error(err)
		}
	}
	if c.read("bin/drover") == "" || c.read("bin/kubectl-drover") == "" {
		t.Error("the programs are not in bin/")
	}
	c.leavesNothing()
}

// TestBuild_Terminated terminates hack/build.sh while it compiles, and while it waits for another one.
func TestBuild_Terminated(t *testing.T) {
	c := newCheckout(t)
	first := c.start("", "node")
	compiler := c.compiling(1)
	second := c.start("", "node")
	c.eventually("the second one waits", func() error {
		if !strings.Contains(second.output.String(), "waiting for process") {
			return fmt.Errorf("it says %q", second.output.String())
		}
		return nil
	})
	for _, r := range []*run{second, first} {
		if err := r.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		r.ends(128 + int(syscall.SIGTERM))
	}
	c.leavesNothing(compiler)
	c.write("release", "")
	c.start("", "node").ends(0)
}

// TestBuild_TerminatedDeafCompiler terminates hack/build.sh twice while it runs a compiler that does not end when it is interrupted.
func TestBuild_TerminatedDeafCompiler(t *testing.T) {
	c := newCheckout(t)
	c.write("deaf", "")
	r := c.start("", "node")
	compiler := c.compiling(1)
	for range 2 {
		if err := r.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	r.ends(128 + int(syscall.SIGTERM))
	c.leavesNothing(compiler)
}

// TestBuild_KeyFails has go env fail: nothing is considered built, or missing.
func TestBuild_KeyFails(t *testing.T) {
	c := newCheckout(t)
	c.write("release", "")
	c.write("no-env", "")
	for _, args := range [][]string{{"sandbox"}, {"--check", "sandbox"}} {
		r := c.start("", args...)
		r.ends(2)
		if !strings.Contains(r.output.String(), "go: no environment") {
			t.Errorf("%v: it says %q", args, r.output.String())
		}
	}
	if built := c.read("builds"); built != "" {
		t.Error("it was compiled")
	}
}
