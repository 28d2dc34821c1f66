package stale

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// apiServer answers every list with its query, and every watch with an event for each line that it is given.
type apiServer struct {
	*httptest.Server

	events chan string
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{events: make(chan string, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.Path, r.URL.Query().Encode()) //nolint:gosec // no browser reads it
			return
		}
		flush(w)
		for {
			select {
			case event := <-s.events:
				_, _ = fmt.Fprintln(w, event)
				flush(w)
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.CloseClientConnections)
	return s
}

func (s *apiServer) behind(t *testing.T, fault Fault) *Proxy {
	t.Helper()
	p, err := Start(t.Context(), &rest.Config{Host: s.URL}, fault, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func do(t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// watchLines reads the events of a watch.
func watchLines(t *testing.T, url string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?watch=1&resourceVersion=5", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := make(chan string, 10)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(response.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case line := <-lines:
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("the event does not come")
		return ""
	}
}

func nothing(t *testing.T, lines <-chan string, within time.Duration) {
	t.Helper()
	select {
	case line := <-lines:
		t.Fatalf("the event %q came through", line)
	case <-time.After(within):
	}
}

var theNodes = schema.GroupResource{Resource: "nodes"}

func TestProxy_PastListsAndPresentReads(t *testing.T) {
	s := newAPIServer(t)
	p := s.behind(t, Fault{Resource: theNodes, Past: "42", Quiet: time.Hour, Bound: time.Hour})
	for _, test := range []struct{ name, path, want string }{
		{"an informer's list", "/api/v1/nodes?resourceVersion=0", "resourceVersion=42&resourceVersionMatch=Exact"},
		{"a quorum read", "/api/v1/nodes?limit=500", "GET /api/v1/nodes limit=500"},
		{"a GET", "/api/v1/nodes/a", "GET /api/v1/nodes/a "},
		{"another kind", "/api/v1/pods?resourceVersion=0", "GET /api/v1/pods resourceVersion=0"},
		{"discovery", "/apis", "GET /apis "},
	} {
		if code, text := do(t, http.MethodGet, p.URL+test.path); code != http.StatusOK || !strings.Contains(text, test.want) {
			t.Errorf("%s: %d %s, want %q", test.name, code, text, test.want)
		}
	}
	code, text := do(t, http.MethodGet, p.URL+"/api/v1/nodes?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	var status metav1.Status
	err := json.Unmarshal([]byte(text), &status)
	if err != nil || code != http.StatusUnprocessableEntity || status.Reason != metav1.StatusReasonInvalid {
		t.Errorf("a streaming list is answered with %d %s (%v), want Invalid", code, text, err)
	}
	lines := watchLines(t, p.URL+"/api/v1/nodes")
	s.events <- "one"
	nothing(t, lines, 200*time.Millisecond)
	p.view.release()
	if line := next(t, lines); line != "one" {
		t.Errorf("after the release the event is %q", line)
	}
	if _, text := do(t, http.MethodGet, p.URL+"/api/v1/nodes?resourceVersion=0"); strings.Contains(text, "Exact") {
		t.Errorf("after the release a list is %s", text)
	}
}

func TestProxy_FreezesBeforeTheWriteIsSent(t *testing.T) {
	s := newAPIServer(t)
	freeze := func(w Write) bool { return w.Own == 2 && w.Resource == "nodes" }
	p := s.behind(t, Fault{Resource: theNodes, Freeze: freeze, Quiet: 500 * time.Millisecond, Bound: time.Minute})
	lines := watchLines(t, p.URL+"/api/v1/nodes")
	do(t, http.MethodPatch, p.URL+"/api/v1/nodes/a")
	s.events <- "one"
	if line := next(t, lines); line != "one" {
		t.Errorf("before the write the event is %q", line)
	}
	do(t, http.MethodDelete, p.URL+"/api/v1/namespaces/x/pods/b")
	begun := time.Now()
	do(t, http.MethodPatch, p.URL+"/api/v1/nodes/a")
	s.events <- "two"
	nothing(t, lines, 200*time.Millisecond)
	if line := next(t, lines); line != "two" {
		t.Errorf("after the freeze the event is %q", line)
	}
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("the view moved after %s, before the operator was quiet", took)
	}
	if writes := p.Writes(); len(writes) != 3 || writes[2].Own != 2 {
		t.Errorf("the writes are %+v", writes)
	}
	do(t, http.MethodPatch, p.URL+"/api/v1/nodes/a")
	s.events <- "three"
	next(t, lines) // it freezes once
}

func TestProxy_BoundEndsAFreezeOfABusyOperator(t *testing.T) {
	v := &view{quiet: time.Second, bound: 5 * time.Second}
	v.freeze()
	start := v.frozen()
	v.active = start.Add(4500 * time.Millisecond)
	for _, test := range []struct {
		after time.Duration
		due   bool
	}{{time.Second, false}, {4900 * time.Millisecond, false}, {5 * time.Second, true}} {
		if got := v.due(start.Add(test.after)); got != test.due {
			t.Errorf("after %s: due %t, want %t", test.after, got, test.due)
		}
	}
	v.active = time.Time{}
	if !v.due(start.Add(time.Second)) {
		t.Error("a quiet operator is not enough")
	}
}

func TestProxy_DelaysEachEvent(t *testing.T) {
	s := newAPIServer(t)
	const delay = 300 * time.Millisecond
	p := s.behind(t, Fault{Resource: theNodes, Delay: delay})
	lines := watchLines(t, p.URL+"/api/v1/nodes")
	begun := time.Now()
	s.events <- "one"
	s.events <- "two"
	for _, want := range []string{"one", "two"} {
		if line := next(t, lines); line != want || time.Since(begun) < delay {
			t.Errorf("the event is %q after %s, want %q after %s", line, time.Since(begun), want, delay)
		}
	}
}
