// Package helm runs Helm on the chart of this repository, and compares what is installed in one way with what is installed in another.
package helm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// Helm runs Helm for one test, with folders of its own for what Helm remembers.
type Helm struct {
	testing.TB

	// Chart is the folder of the chart.
	Chart string

	binary string
	env    []string
}

// New finds Helm and the chart. The cluster may be nil for what needs none.
func New(t testing.TB, c *cluster.Cluster) *Helm {
	t.Helper()
	chart, err := harness.Folder("charts/drover")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(chart, "../../bin/tools/helm")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("these tests need Helm: run `make tools` (%v)", err)
	}
	home := t.TempDir()
	h := &Helm{TB: t, Chart: chart, binary: binary, env: append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)}
	if c != nil {
		h.env = append(h.env, "KUBECONFIG="+c.AdminKubeconfig())
	}
	return h
}

// Try runs Helm and returns what it printed.
func (h *Helm) Try(args ...string) (string, error) {
	run := exec.CommandContext(h.Context(), h.binary, args...)
	run.Env = h.env
	output, err := run.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(output), err
}

// Run runs Helm, which must succeed.
func (h *Helm) Run(args ...string) string {
	h.Helper()
	output, err := h.Try(args...)
	if err != nil {
		h.Fatal(err)
	}
	return output
}

// Refused runs Helm, which must fail and say a text.
func (h *Helm) Refused(text string, args ...string) {
	h.Helper()
	if output, err := h.Try(args...); err == nil || !strings.Contains(err.Error(), text) {
		h.Errorf("helm %s: %v, want %q\n%s", strings.Join(args, " "), err, text, output)
	}
}

// Template renders the chart as a release drover in namespace drover-system, without asking a cluster.
func (h *Helm) Template(args ...string) Objects {
	h.Helper()
	return Parse(h, h.Run(append([]string{"template", "drover", h.Chart, "--namespace", harness.SystemNamespace}, args...)...))
}

// Only are the arguments that turn one capability on alone.
func Only(capability string) []string {
	args := make([]string, 0, 10)
	for _, name := range []string{"metadata", "maintenance", "machines", "autoscaling", "upgrade"} {
		args = append(args, "--set", fmt.Sprintf("capabilities.%s=%t", name, name == capability))
	}
	return append(args, "--set", fmt.Sprintf("capabilities.nodeGroups=%t", capability == "node-groups"))
}
