package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// limits bound what the callers of an endpoint can make Drover do. A client is an IP address.
type limits struct {
	// connections and clientConnections bound the open connections, of all and of one client; more are closed at once.
	connections, clientConnections int
	// requests and clientRequests bound the requests in flight; more are answered with 429.
	requests, clientRequests int
	// perSecond is how many requests are let through; the others in flight wait.
	perSecond rate.Limit
	// body is how long a request can be, in bytes.
	body int64
}

// endpoint serves HTTP within limits, on every replica. controller-runtime's servers have neither limits nor time-outs for a request.
type endpoint struct {
	name, address string
	// tls returns the configuration of TLS; nil serves plain HTTP.
	tls     func(ctx context.Context) (*tls.Config, error)
	handler http.Handler
	limits  limits
}

// NeedLeaderElection returns false: a standby replica serves, too.
func (e *endpoint) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (e *endpoint) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.address)
	if err != nil {
		return fmt.Errorf("%s.bindAddress: %w", e.name, err)
	}
	return e.serve(ctx, listener)
}

func (e *endpoint) serve(ctx context.Context, listener net.Listener) error {
	address := listener.Addr().String()
	listener = &limitedListener{Listener: listener, clients: clients{total: e.limits.connections, each: e.limits.clientConnections}}
	if e.tls != nil {
		config, err := e.tls(ctx)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", e.name, err), listener.Close())
		}
		listener = tls.NewListener(listener, config)
	}
	log.FromContext(ctx).Info("serving", "endpoint", e.name, "address", address)
	server := &http.Server{
		Handler: newLimitedHandler(e.handler, e.limits), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 40 * time.Second, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: 64 << 10,
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		// What is being answered may end; probes, scrapes and the API server ask again.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace/3)
		defer cancel()
		if err := server.Shutdown(ending); err != nil {
			log.FromContext(ctx).Error(errors.Join(err, server.Close()), "closing an endpoint", "endpoint", e.name)
		}
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serving %s: %w", e.name, err)
	}
	<-closed
	return nil
}

// clients counts something by client, within bounds.
type clients struct {
	total, each int

	mu    sync.Mutex
	sum   int
	count map[string]int
}

// enter reports whether one more is within the bounds, and counts it if it is.
func (c *clients) enter(client string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sum >= c.total || c.count[client] >= c.each {
		return false
	}
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.sum++
	c.count[client]++
	return true
}

func (c *clients) leave(client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sum--
	if c.count[client]--; c.count[client] == 0 {
		delete(c.count, client)
	}
}

// clientOf is the IP address of an address with a port.
func clientOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// limitedListener closes connections that are too many.
type limitedListener struct {
	net.Listener
	clients clients
}

// Accept returns the next connection that is within the bounds.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(connection.RemoteAddr().String())
		if l.clients.enter(client) {
			return &countedConnection{Conn: connection, leave: sync.OnceFunc(func() { l.clients.leave(client) })}, nil
		}
		_ = connection.Close()
	}
}

type countedConnection struct {
	net.Conn
	leave func()
}

// Close closes the connection and counts it no longer.
func (c *countedConnection) Close() error {
	c.leave()
	return c.Conn.Close()
}

// newLimitedHandler answers what is beyond the limits with 429, before anything is done for the caller.
func newLimitedHandler(next http.Handler, limits limits) http.Handler {
	flights := &clients{total: limits.requests, each: limits.clientRequests}
	pace := rate.NewLimiter(limits.perSecond, limits.requests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := clientOf(r.RemoteAddr)
		if !flights.enter(client) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		defer flights.leave(client)
		if err := pace.Wait(r.Context()); err != nil {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, limits.body)
		next.ServeHTTP(w, r)
	})
}
