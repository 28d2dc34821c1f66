package operator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// check is one of the things that /readyz looks at.
type check struct {
	name string
	ask  func(ctx context.Context) error
}

// health serves the probes. controller-runtime's own would do for yes and no; it cannot say which capability is off, and why.
type health struct {
	checks []check
	lines  func() []string
}

// healthLimits are for the kubelet, and for people who look.
var healthLimits = limits{connections: 64, clientConnections: 16, requests: 16, clientRequests: 8, perSecond: 50, body: 1 << 10}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("/readyz", h.ready)
	return mux
}

func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	var lines []string
	code := http.StatusOK
	for _, check := range h.checks {
		if err := check.ask(r.Context()); err != nil {
			code = http.StatusServiceUnavailable
			lines = append(lines, fmt.Sprintf("[-]%s failed: %v", check.name, err))
			continue
		}
		lines = append(lines, fmt.Sprintf("[+]%s ok", check.name))
	}
	_, verbose := r.URL.Query()["verbose"]
	if verbose {
		lines = append(lines, h.lines()...)
	}
	if code == http.StatusOK && !verbose {
		lines = []string{"ok"}
	}
	answer(w, code, lines...)
}

func answer(w http.ResponseWriter, code int, lines ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	// The prober may have closed the connection.
	_, _ = w.Write([]byte(strings.Join(lines, "\n") + "\n"))
}
