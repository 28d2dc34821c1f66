package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// check is one of the things that /readyz looks at.
type check struct {
	name string
	ask  func(ctx context.Context) error
}

// health serves the probes. controller-runtime's own would do for yes and no; it cannot say which capability is off, and why.
type health struct {
	address string
	checks  []check
	lines   func() []string
}

// NeedLeaderElection tells the manager that a replica that stands by is probed, too.
func (h *health) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (h *health) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.address)
	if err != nil {
		return fmt.Errorf("health.bindAddress: %w", err)
	}
	log.FromContext(ctx).Info("serving probes", "address", listener.Addr().String())
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() {
		// Probes are short; the kubelet asks again.
		if err := server.Close(); err != nil {
			log.FromContext(ctx).Error(err, "closing the probes' endpoint")
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving probes: %w", err)
	}
	return nil
}

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
	// The prober may be gone; there is nobody to tell.
	_, _ = w.Write([]byte(strings.Join(lines, "\n") + "\n"))
}

// apiCheck asks the API server whether it answers, at most once in a while: every replica is probed every few seconds.
type apiCheck struct {
	client rest.Interface
	every  time.Duration
	mu     sync.Mutex
	asked  time.Time
	last   error
}

func (c *apiCheck) ask(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.asked) < c.every {
		return c.last
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c.last = c.client.Get().AbsPath("/version").Do(ctx).Error()
	c.asked = time.Now()
	return c.last
}
