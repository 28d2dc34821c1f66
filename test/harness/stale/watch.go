package stale

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// chunk is a piece of a watch, and when the API server sent it.
type chunk struct {
	data []byte
	at   time.Time
}

// serveWatch passes a watch on: through the gate, and each piece as late as the fault says.
func (p *Proxy) serveWatch(w http.ResponseWriter, r *http.Request) {
	if p.view.past() != "" && r.URL.Query().Get("sendInitialEvents") == "true" {
		// A server without streaming lists says so, and the reflector falls back to a LIST with resourceVersion=0, which may be old. The
		// initial events of a server with streaming lists may not.
		withoutStreamingLists(w)
		return
	}
	response, err := p.transport.RoundTrip(p.outgoing(r, r.Body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }()
	header(w, response)
	chunks := make(chan chunk, 4096)
	go readChunks(r.Context(), response.Body, chunks)
	for c := range chunks {
		if err := p.view.wait(r.Context(), c.at); err != nil {
			return
		}
		if _, err := w.Write(c.data); err != nil {
			return
		}
		flush(w)
	}
}

// readChunks reads a watch as fast as the API server sends it, so that how late a piece is does not depend on those before it.
func readChunks(ctx context.Context, from io.Reader, to chan<- chunk) {
	defer close(to)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case to <- chunk{buffer[:n], time.Now()}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// header passes on the beginning of an answer.
func header(w http.ResponseWriter, response *http.Response) {
	for key, values := range response.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(response.StatusCode)
	flush(w)
}

func flush(w http.ResponseWriter) {
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
}

// withoutStreamingLists answers as an API server whose feature gate WatchList is off:
// ValidateListOptions in k8s.io/apimachinery/pkg/apis/meta/internalversion/validation.
func withoutStreamingLists(w http.ResponseWriter) {
	status := apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", field.ErrorList{
		field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
	}).Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// view is how old the operator's view of the one kind is.
type view struct {
	resource schema.GroupResource
	delay    time.Duration
	quiet    time.Duration
	bound    time.Duration
	// standby is whether the time of a freeze begins when the operator becomes the leader.
	standby bool

	mu sync.Mutex
	// version is the resourceVersion of the past that lists show; empty for the present.
	version string
	// released is closed when a frozen view moves again; nil while it is not frozen.
	released chan struct{}
	// since is when the view froze, or the operator first looked at it if it was old before; moved is when it was released, active when the
	// operator last made a request.
	since, moved, active time.Time
}

// freeze holds every watch of the kind back from now on, until the operator has been quiet for a while.
func (v *view) freeze() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.released == nil && v.moved.IsZero() {
		v.released = make(chan struct{})
		if !v.standby {
			v.since = time.Now()
		}
	}
}

// release lets the watches go on, and lists show the present.
func (v *view) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version = ""
	if v.released != nil {
		close(v.released)
		v.released, v.moved = nil, time.Now()
	}
}

// frozen returns since when the view stands still; zero for not at all.
func (v *view) frozen() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.released == nil {
		return time.Time{}
	}
	return v.since
}

// hidden returns since when the view has stood still for what the operator could know at a time; zero for not at all. What was held back comes when
// the view moves again, and takes as long as any event then.
func (v *view) hidden(at time.Time) time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.released == nil && !at.Before(v.moved.Add(grace)) {
		return time.Time{}
	}
	return v.since
}

// froze reports whether the view stands still, or ever did.
func (v *view) froze() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.released != nil || !v.moved.IsZero()
}

func (v *view) past() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.version
}

// wait returns when a piece of a watch that the API server sent at some time may be passed on.
func (v *view) wait(ctx context.Context, at time.Time) error {
	v.mu.Lock()
	released := v.released
	v.mu.Unlock()
	if v.delay > 0 {
		select {
		case <-time.After(time.Until(at.Add(v.delay))):
		case <-ctx.Done():
			return fmt.Errorf("stale: %w", ctx.Err())
		}
	}
	if released == nil {
		return nil
	}
	select {
	case <-released:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stale: %w", ctx.Err())
	}
}

// begin starts the time of a view that was old before the operator did anything with it.
func (v *view) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.released != nil && v.since.IsZero() {
		v.since = time.Now()
	}
}

// touch notes that the operator is at work.
func (v *view) touch() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.active = time.Now()
}

// due reports whether a frozen view is to be released: the operator has made no request for a while, or will not stop making them.
func (v *view) due(now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.released == nil || v.since.IsZero() {
		return false
	}
	if now.Sub(v.since) >= v.bound {
		return true
	}
	last := v.since
	if v.active.After(last) {
		last = v.active
	}
	return now.Sub(last) >= v.quiet
}
