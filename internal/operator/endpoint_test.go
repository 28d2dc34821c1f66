package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
)

// started runs an endpoint until the test ends, and returns its address.
func started(t *testing.T, e *endpoint) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("a stop that was asked for is an error: %v", err)
		}
	})
	return listener.Addr().String()
}

func post(t *testing.T, client *http.Client, url string, body io.Reader) (code int, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode, response.Header
}

func TestEndpoint_SaysWhichAddressCannotBeServed(t *testing.T) {
	e := &endpoint{name: "health", address: "256.0.0.1:0"}
	if err := e.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "health.bindAddress: ") {
		t.Errorf("error %v", err)
	}
	if e.NeedLeaderElection() {
		t.Error("a replica that stands by is probed, too")
	}
}

func TestEndpoint_BoundsTheRequestsOfAClient(t *testing.T) {
	arrived, release := make(chan bool), make(chan bool)
	address := started(t, &endpoint{
		name: "test", limits: limits{connections: 10, clientConnections: 10, requests: 3, clientRequests: 2, perSecond: 1000, body: 10},
		handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			arrived <- true
			<-release
		}),
	})
	answers := make(chan int, 2)
	for range 2 {
		go func() {
			code, _ := post(t, http.DefaultClient, "http://"+address, nil)
			answers <- code
		}()
		<-arrived
	}
	if code, header := post(t, http.DefaultClient, "http://"+address, nil); code != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("a third request is answered %d %v", code, header)
	}
	close(release)
	for range 2 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("code %d", code)
		}
	}
	go func() { <-arrived }()
	if code, _ := post(t, http.DefaultClient, "http://"+address, nil); code != http.StatusOK {
		t.Errorf("after the others have ended it is answered %d", code)
	}
}

// The requests that wait for their turn end with their callers. All clients together share one pace.
func TestLimitedHandler_Paces(t *testing.T) {
	served := 0
	handler := newLimitedHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
		limits{requests: 2, clientRequests: 2, perSecond: 0.001, body: 1})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		if i == 2 {
			request = request.WithContext(gone)
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("request %d is answered %d, want %d", i, recorder.Code, want)
		}
	}
	if served != 2 {
		t.Errorf("%d were served", served)
	}
}

func TestEndpoint_BoundsTheBody(t *testing.T) {
	var read error
	address := started(t, &endpoint{
		name: "test", limits: limits{connections: 10, clientConnections: 10, requests: 3, clientRequests: 2, perSecond: 1000, body: 1 << 10},
		handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, read = io.ReadAll(r.Body) }),
	})
	post(t, http.DefaultClient, "http://"+address, strings.NewReader(strings.Repeat("x", 1<<10)))
	if read != nil {
		t.Errorf("a body within the bound: %v", read)
	}
	post(t, http.DefaultClient, "http://"+address, strings.NewReader(strings.Repeat("x", 1<<10+1)))
	var tooLarge *http.MaxBytesError
	if !errors.As(read, &tooLarge) {
		t.Errorf("a body beyond it: %v", read)
	}
}

func TestEndpoint_BoundsTheConnectionsOfAClient(t *testing.T) {
	address := started(t, &endpoint{
		name: "test", limits: limits{connections: 3, clientConnections: 2, requests: 3, clientRequests: 2, perSecond: 1000, body: 10},
		handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	})
	dial := func() net.Conn {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return connection
	}
	held := []net.Conn{dial(), dial()}
	third := dial()
	if err := third.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := third.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("a third connection stays open: %v", err)
	}
	_ = held[0].Close()
	client := &http.Client{Transport: &http.Transport{}}
	deadline := time.Now().Add(10 * time.Second)
	for {
		response, err := client.Get("http://" + address)
		if err == nil {
			_ = response.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no connection after another one was closed: %v", err)
		}
	}
	client.CloseIdleConnections()
}

func TestMetricsTLS_OffersHTTP1UnlessAskedForMore(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		settings := defaultMetrics()
		settings.HTTP2 = new(http2)
		made, err := metricsTLS(t.Context(), settings)
		if err != nil {
			t.Fatal(err)
		}
		address := started(t, &endpoint{
			name: "test", limits: metricsLimits, handler: http.NotFoundHandler(),
			tls: func(context.Context) (*tls.Config, error) { return made, nil },
		})
		//nolint:gosec // the certificate is unknown
		config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}
		connection, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		secured, ok := connection.(*tls.Conn)
		if !ok {
			t.Fatalf("a %T", connection)
		}
		protocol := secured.ConnectionState().NegotiatedProtocol
		if (protocol == "h2") != http2 || !slices.Contains([]string{"h2", "http/1.1"}, protocol) {
			t.Errorf("http2=%t: %s was agreed on", http2, protocol)
		}
		_ = connection.Close()
	}
	settings := defaultMetrics()
	settings.CertDir = filepath.Join(t.TempDir(), "none")
	if _, err := metricsTLS(t.Context(), settings); err == nil || !strings.Contains(err.Error(), "certDir") {
		t.Errorf("error %v", err)
	}
}

func defaultMetrics() v1alpha1.Metrics { return config.Default().Metrics }
