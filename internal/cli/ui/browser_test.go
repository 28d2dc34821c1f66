package ui

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/ownership"
)

// served is the page of an invented cluster.
type served struct {
	cluster *cluster
	client  client.WithWatch
	address string
	// sent is how many bytes browsers have got.
	sent atomic.Int64
}

// serve serves the page of a cluster with some objects, as with --write, until the test ends.
func serve(t *testing.T, objects []client.Object) *served {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := newFakeClient(objects)
	s := &served{client: c, cluster: newCluster(c, []string{""}, ownership.DefaultProtected(), time.Now)}
	s.cluster.write = true
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handler := newServer(s.cluster, listener.Addr().String(), "token")
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(&countingWriter{w, &s.sent}, r)
	})}
	s.address = "http://" + listener.Addr().String() + "/"
	ended := make(chan struct{}, 2)
	go func() {
		_ = server.Serve(listener)
		ended <- struct{}{}
	}()
	go func() {
		_ = s.cluster.run(ctx)
		ended <- struct{}{}
	}()
	t.Cleanup(func() {
		stop()
		handler.close()
		_ = server.Close()
		<-ended
		<-ended
	})
	return s
}

// at returns the address of a view.
func (s *served) at(query string) string { return s.address + query + "#token=token" }

// warm waits until the plugin has read all that decides about nodes.
func (s *served) warm(t *testing.T) {
	t.Helper()
	select {
	case <-s.cluster.loaded:
	case <-t.Context().Done():
		t.Fatal("the plugin has not read the cluster")
	}
}

// countingWriter counts what is sent.
type countingWriter struct {
	http.ResponseWriter

	sent *atomic.Int64
}

// Write sends a part of an answer.
func (c *countingWriter) Write(content []byte) (int, error) {
	n, err := c.ResponseWriter.Write(content)
	c.sent.Add(int64(n))
	return n, err
}

// Unwrap is how http.ResponseController finds the writer.
func (c *countingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
