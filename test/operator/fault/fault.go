// Package fault makes requests of an operator to the API server fail, come late, or be its last. Tests describe the Faults, and the operator of tests
// (test/operator) carries them out in its transport.
package fault

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// variable carries the Faults to the operator's process.
const variable = "DROVER_TEST_FAULTS"

// Faults are what goes wrong in an operator's connection to the API server. The zero value is nothing.
type Faults struct {
	// KillBefore and KillAfter name a write, counted from 1, before whose sending or after whose answer the process kills itself with
	// SIGKILL. Zero is never.
	KillBefore, KillAfter int `json:",omitempty"`
	// Refuse answers every so many-th write with RefuseCode before it is sent. Zero is never.
	Refuse, RefuseCode int `json:",omitempty"`
	// Lose drops the answer of every so many-th write after the API server has carried it out.
	Lose int `json:",omitempty"`
	// WatchDelay is how late every piece of a watch arrives, so that caches are that far behind.
	WatchDelay time.Duration `json:",omitempty"`
	// WatchDelayOf names the resource whose watches are late, such as machines; empty is all.
	WatchDelayOf string `json:",omitempty"`
}

// Environment returns the entries of an environment that have the operator carry out the faults; none if nothing is to go wrong.
func (f Faults) Environment() []string {
	if f == (Faults{}) {
		return nil
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("fault: faults do not marshal: %v", err))
	}
	return []string{variable + "=" + string(text)}
}

// FromEnvironment returns what wraps the transport of the operator: it carries out the faults of the process's environment.
func FromEnvironment() func(http.RoundTripper) http.RoundTripper {
	var faults Faults
	if text := os.Getenv(variable); text != "" {
		if err := json.Unmarshal([]byte(text), &faults); err != nil {
			panic(fmt.Sprintf("fault: %s: %v", variable, err))
		}
	}
	return func(next http.RoundTripper) http.RoundTripper { return &transport{Faults: faults, next: next} }
}

// transport counts writes and makes some of them fail.
type transport struct {
	Faults
	next   http.RoundTripper
	writes atomic.Int64
}

// RoundTrip sends a request on, or refuses it.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	switch {
	case t.delays(request):
		return t.late(request)
	case counted(request):
		return t.write(request)
	}
	return t.next.RoundTrip(request)
}

// delays reports whether a request is a watch that is late.
func (t *transport) delays(request *http.Request) bool {
	return t.WatchDelay > 0 && request.Method == http.MethodGet && request.URL.Query().Get("watch") != "" &&
		(t.WatchDelayOf == "" || strings.HasSuffix(request.URL.Path, "/"+t.WatchDelayOf))
}

// counted reports whether a request is a write. No decision depends on events, and they are written asynchronously: counting them would make the
// count random. Reviews of callers of /metrics are no writes.
func counted(request *http.Request) bool {
	switch request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !strings.Contains(request.URL.Path, "/events") && !strings.HasSuffix(request.URL.Path, "reviews")
	}
	return false
}

// write sends one of the writes that are counted, or has it fail.
func (t *transport) write(request *http.Request) (*http.Response, error) {
	n := int(t.writes.Add(1))
	if n == t.KillBefore {
		die()
	}
	if t.Refuse > 0 && n%t.Refuse == 0 {
		return refusal(request, t.RefuseCode), nil
	}
	response, err := t.next.RoundTrip(request)
	if n == t.KillAfter {
		if err == nil {
			// The API server is done with the request then. It logs one as failed whose client is gone before that.
			_, _ = io.Copy(io.Discard, response.Body)
		}
		die()
	}
	if err == nil && t.Lose > 0 && n%t.Lose == 0 {
		_ = response.Body.Close()
		return nil, fmt.Errorf("fault: the answer of write %d is lost", n)
	}
	return response, err
}

// die ends the process as the kernel's out-of-memory killer would: nothing is cleaned up.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// late makes a watch whose events come late.
func (t *transport) late(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil {
		response.Body = &lateBody{ReadCloser: response.Body, delay: t.WatchDelay}
	}
	return response, err
}

// lateBody holds back what it has read.
type lateBody struct {
	io.ReadCloser

	delay time.Duration
}

// Read passes on what it has read after the delay.
func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		time.Sleep(b.delay)
	}
	return n, err
}
