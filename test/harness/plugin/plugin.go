// Package plugin runs kubectl drover in tests. It is a package of its own since few tests need what the command line links in.
package plugin

import (
	"bytes"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-io/drover/internal/cli"
	"github.com/drover-io/drover/test/harness"
)

// Run runs kubectl drover as the administrator, and returns what it prints and its exit code.
func Run(w *harness.World, args ...string) (output string, code int) {
	w.Helper()
	var out bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
	code = cli.Main(w.Context(), append([]string{"--kubeconfig", w.Cluster.AdminKubeconfig()}, args...), streams)
	return out.String(), code
}
