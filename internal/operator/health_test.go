package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

func get(t *testing.T, h http.Handler, path string) (code int, body string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	if kind := recorder.Header().Get("Content-Type"); path != "/nonsense" && !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("%s answers %s", path, kind)
	}
	return recorder.Code, recorder.Body.String()
}

func TestProbes(t *testing.T) {
	var sick error
	h := &health{
		checks: []check{{"api-server", func(context.Context) error { return nil }}, {"caches", func(context.Context) error { return sick }}},
		lines:  func() []string { return []string{"capability metadata: running"} },
	}
	for _, c := range []struct {
		path string
		sick error
		code int
		body string
	}{
		{"/healthz", nil, 200, "ok\n"},
		{"/healthz", errors.New("filling"), 200, "ok\n"},
		{"/readyz", nil, 200, "ok\n"},
		{"/readyz?verbose", nil, 200, "[+]api-server ok\n[+]caches ok\ncapability metadata: running\n"},
		{"/readyz", errors.New("filling"), 503, "[+]api-server ok\n[-]caches failed: filling\n"},
		{"/readyz?verbose=1", errors.New("filling"), 503, "[+]api-server ok\n[-]caches failed: filling\ncapability metadata: running\n"},
	} {
		sick = c.sick
		if code, body := get(t, h.handler(), c.path); code != c.code || body != c.body {
			t.Errorf("%s with %v: %d %q", c.path, c.sick, code, body)
		}
	}
	if code, _ := get(t, h.handler(), "/nonsense"); code != http.StatusNotFound {
		t.Errorf("an unknown path answers %d", code)
	}
}

// Probes come every few seconds, from each replica: the API server is not to be asked each time, whether it answers well or not.
func TestAPICheckAsksOnceInAWhile(t *testing.T) {
	for name, code := range map[string]int{"well": http.StatusOK, "ill": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if r.URL.Path != "/version" {
					t.Errorf("asks for %s", r.URL.Path)
				}
				w.WriteHeader(code)
			}))
			defer server.Close()
			client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			api := &apiCheck{client: client.RESTClient(), every: time.Hour}
			for range 3 {
				if err := api.ask(t.Context()); (err == nil) != (code == http.StatusOK) {
					t.Errorf("error %v", err)
				}
			}
			if asked.Load() != 1 {
				t.Errorf("asked %d times", asked.Load())
			}
			api.asked = time.Now().Add(-2 * time.Hour)
			server.Close()
			if err := api.ask(t.Context()); err == nil {
				t.Error("an old answer counts for ever")
			}
		})
	}
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	logger := NewLogger(v1alpha1.Log{Format: "json", Verbosity: new(1)}, &out)
	logger.Info("patched", "took", 1500*time.Millisecond, "n", 1)
	logger.V(1).Info("detail")
	logger.V(2).Info("too much")
	logger.Error(errors.New("no"), "failed")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	if first["msg"] != "patched" || first["took"] != "1.5s" || first["n"] != 1.0 || first["level"] != "info" {
		t.Errorf("line %v", first)
	}
	if text, ok := first["time"].(string); !ok || len(text) < len(time.RFC3339) {
		t.Errorf("time %v", first["time"])
	} else if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
		t.Error(err)
	}
	if !strings.Contains(lines[2], `"error":"no"`) {
		t.Errorf("error line %s", lines[2])
	}
	out.Reset()
	NewLogger(v1alpha1.Log{Format: "text", Verbosity: new(0)}, &out).Info("patched", "n", 1)
	if line := out.String(); strings.HasPrefix(line, "{") || !strings.Contains(line, "patched") {
		t.Errorf("text line %q", line)
	}
}
