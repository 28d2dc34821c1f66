package operator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// An API server may be upgraded while Drover runs.
func TestAPICheck_WhatTheServerLacks(t *testing.T) {
	const lacks = " (without WatchList: Drover needs more memory when it starts, because it reads each kind in one piece)"
	version, watch, watches := "", 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = fmt.Fprintf(w, `{"gitVersion":%q}`, version)
			return
		}
		watches++
		if r.URL.Query().Get("sendInitialEvents") != "true" {
			t.Errorf("watches with %v", r.URL.Query())
		}
		w.WriteHeader(watch)
		if watch == http.StatusUnprocessableEntity {
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		}
	}))
	defer server.Close()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	api := &apiCheck{client: client.RESTClient()}
	if lines := api.lines(); lines != nil {
		t.Errorf("before the first answer: %q", lines)
	}
	for _, c := range []struct {
		name, version string
		watch         int
		want          []string
		watches       int
	}{
		{"no answer to the watch: the next check asks again", "v1.31.14", http.StatusForbidden, nil, 1},
		{"lists are not streamed", "v1.31.14", http.StatusUnprocessableEntity, []string{"kubernetes: v1.31.14" + lacks}, 2},
		{"the same version: no further watch", "v1.31.14", http.StatusUnprocessableEntity, []string{"kubernetes: v1.31.14" + lacks}, 2},
		{"upgraded, and lists are streamed", "v1.34.4", http.StatusOK, []string{"kubernetes: v1.34.4"}, 3},
	} {
		version, watch = c.version, c.watch
		if err := api.ask(t.Context()); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if lines := api.lines(); !slices.Equal(lines, c.want) || watches != c.watches {
			t.Errorf("%s: %q after %d watches, want %q after %d", c.name, lines, watches, c.want, c.watches)
		}
	}
}
