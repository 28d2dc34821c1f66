// Package plugin runs kubectl drover in tests. It is a package of its own since few tests need what the command line links in.
package plugin

import (
	"bufio"
	"bytes"
	"context"
	"io"
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

// ServePage runs kubectl drover ui until the test ends, and returns the address that the command prints. An empty kubeconfig is the administrator's.
func ServePage(w *harness.World, kubeconfig string, args ...string) (address string) {
	w.Helper()
	if kubeconfig == "" {
		kubeconfig = w.Cluster.AdminKubeconfig()
	}
	ctx, stop := context.WithCancel(w.Context())
	from, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out}
		ended <- cli.Main(ctx, append([]string{"ui", "--kubeconfig", kubeconfig}, args...), streams)
		_ = out.Close()
	}()
	lines := bufio.NewReader(from)
	line, err := lines.ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "Open ")
	if err != nil || !found {
		stop()
		w.Fatalf("kubectl drover ui has printed %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	w.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			w.Errorf("kubectl drover ui has ended with code %d", code)
		}
	})
	return address
}
