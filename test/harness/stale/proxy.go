package stale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Fault is what is wrong with an operator's view of one kind.
type Fault struct {
	// Resource is the kind; empty for none.
	Resource schema.GroupResource
	// Delay is how late every event of its watches is.
	Delay time.Duration
	// Past is a resourceVersion: lists that name a resourceVersion, which may be old, show the kind as it was then, and watches stand still there.
	// Lists without one show the present. Empty is the present for all.
	Past string
	// Freeze reports of a write, before it is sent, whether the watches stand still from then on; nil never does.
	Freeze func(Write) bool
	// Elect reports whether the operator may become the leader by now; nil is always. Until it does a frozen view stays so.
	Elect func() bool
	// Quiet is for how long the operator has to make no request before the view moves again, Bound how long it stands still at most.
	Quiet, Bound time.Duration
}

// Write is one of the operator's writes, events, reviews and its own leader election aside.
type Write struct {
	*apirequest.RequestInfo

	// Index counts all writes from 1, Own the writes to the fault's kind.
	Index, Own int
	// At is when it was made.
	At time.Time
}

// Proxy stands between an operator and an API server.
type Proxy struct {
	// URL is where the operator reaches it.
	URL string

	upstream  *url.URL
	transport http.RoundTripper
	pass      *httputil.ReverseProxy
	server    *http.Server
	stop      context.CancelFunc
	judge     *Judge
	fault     Fault
	view      *view

	mu sync.Mutex
	// writes are the writes that have come so far, own the number of those to the fault's kind.
	writes []Write
	own    int
	// refused counts the writes that the API server did not carry out.
	refused int
	// asked has the kinds that were listed or watched, with the parameters of the requests.
	asked map[schema.GroupVersionResource]sets.Set[string]
}

var requests = &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// Start starts a proxy on a free port. It reaches the API server as the configuration says, with its credentials: client-go sends none where
// it has no TLS. A nil judge judges nothing.
func Start(ctx context.Context, config *rest.Config, fault Fault, judge *Judge) (*Proxy, error) {
	upstream, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("stale: the API server's address: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("stale: reaching the API server: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("stale: listening: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &Proxy{
		URL: "http://" + listener.Addr().String(), upstream: upstream, transport: transport, stop: stop, judge: judge, fault: fault,
		view: &view{
			resource: fault.Resource, delay: fault.Delay, quiet: fault.Quiet, bound: fault.Bound, version: fault.Past, standby: fault.Elect != nil,
		},
		asked: map[schema.GroupVersionResource]sets.Set[string]{},
	}
	if fault.Past != "" {
		// Until the operator has asked for it nothing stands still yet.
		p.view.released = make(chan struct{})
	}
	p.pass = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }, Transport: transport, FlushInterval: -1,
		// A client that has gone is no fault worth a line.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() { _ = p.server.Serve(listener) }()
	go p.watchOver(ctx)
	return p, nil
}

// Config is how an operator reaches the proxy.
func (p *Proxy) Config() *rest.Config { return &rest.Config{Host: p.URL} }

// Stop ends the proxy and all that goes through it.
func (p *Proxy) Stop() error {
	p.stop()
	p.view.release()
	if err := p.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("stale: stopping the proxy: %w", err)
	}
	return nil
}

// watchOver releases a frozen view when it is time.
func (p *Proxy) watchOver(ctx context.Context) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			if p.view.due(now) {
				p.view.release()
			}
		}
	}
}

// ServeHTTP passes one request on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, err := requests.NewRequestInfo(r)
	if err != nil || !info.IsResourceRequest {
		p.pass.ServeHTTP(w, r)
		return
	}
	p.note(info, r)
	switch {
	case election(info):
		p.serveElection(w, r, info)
	case counted(info):
		p.serveWrite(w, r, info)
	case info.Subresource == "" && (schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}) == p.fault.Resource:
		p.serveView(w, r, info)
	default:
		p.pass.ServeHTTP(w, r)
	}
}

// serveElection keeps an operator from leading for as long as the fault says.
func (p *Proxy) serveElection(w http.ResponseWriter, r *http.Request, info *apirequest.RequestInfo) {
	if p.fault.Elect != nil && !p.fault.Elect() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if info.Verb == "create" || info.Verb == "update" {
		p.view.begin()
	}
	p.pass.ServeHTTP(w, r)
}

// serveView answers what is read of the fault's kind. What must be the most recent state is: a GET, and a LIST without a resourceVersion.
func (p *Proxy) serveView(w http.ResponseWriter, r *http.Request, info *apirequest.RequestInfo) {
	switch {
	case info.Verb == "watch":
		p.view.begin()
		p.serveWatch(w, r)
	case info.Verb == "list" && r.URL.Query().Get("resourceVersion") != "" && p.view.past() != "":
		p.view.begin()
		p.listPast(w, r)
	default:
		p.pass.ServeHTTP(w, r)
	}
}

// note records what is asked for.
func (p *Proxy) note(info *apirequest.RequestInfo, r *http.Request) {
	if !election(info) {
		p.view.touch()
	}
	if info.Verb != "list" && info.Verb != "watch" {
		return
	}
	query := r.URL.Query()
	how := fmt.Sprintf("%s resourceVersion=%q match=%q sendInitialEvents=%q bookmarks=%q", info.Verb, kindOfVersion(query.Get("resourceVersion")),
		query.Get("resourceVersionMatch"), query.Get("sendInitialEvents"), query.Get("allowWatchBookmarks"))
	if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata") {
		how += " metadata only"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if p.asked[key] == nil {
		p.asked[key] = sets.New[string]()
	}
	p.asked[key].Insert(how)
}

// kindOfVersion keeps what is said of a version: none, any, or one.
func kindOfVersion(version string) string {
	if version == "" || version == "0" {
		return version
	}
	return "n"
}

// election reports whether a request is of a leader election.
func election(info *apirequest.RequestInfo) bool {
	return info.Resource == "leases" && strings.HasPrefix(info.Name, "drover")
}

// counted reports whether a request is a write that is decided on: events and reviews are not, nor is the leader election.
func counted(info *apirequest.RequestInfo) bool {
	switch info.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return info.Resource != "events" && !strings.HasSuffix(info.Resource, "reviews") && !election(info)
	}
	return false
}

// listPast answers a LIST that may be old with what was there at the fault's version.
func (p *Proxy) listPast(w http.ResponseWriter, r *http.Request) {
	version := p.view.past()
	if version == "" { // released meanwhile
		p.pass.ServeHTTP(w, r)
		return
	}
	query := r.URL.Query()
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", "Exact")
	r.URL.RawQuery = query.Encode()
	p.pass.ServeHTTP(w, r)
}

// serveWrite sends a write, after freezing the view where the fault says so, and has it judged.
func (p *Proxy) serveWrite(w http.ResponseWriter, r *http.Request, info *apirequest.RequestInfo) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	write := p.count(info)
	if p.fault.Freeze != nil && p.fault.Freeze(write) {
		p.view.freeze()
	}
	// What the judge reads of the answers is JSON.
	r.Header.Set("Accept", strings.ReplaceAll(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf", "application/json"))
	send := func() (*Answer, error) { return p.send(r, body) }
	answer, err := p.judge.judge(r.Context(), &Request{RequestInfo: info, Body: body}, p.view, send)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if answer.Code >= http.StatusBadRequest {
		p.mu.Lock()
		p.refused++
		p.mu.Unlock()
	}
	for key, values := range answer.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body)
}

// count counts a write.
func (p *Proxy) count(info *apirequest.RequestInfo) Write {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}) == p.fault.Resource {
		p.own++
	}
	write := Write{RequestInfo: info, Index: len(p.writes) + 1, Own: p.own, At: time.Now()}
	p.writes = append(p.writes, write)
	return write
}

// Answer is what the API server answered.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
}

// send sends a request and reads the answer whole.
func (p *Proxy) send(r *http.Request, body []byte) (*Answer, error) {
	response, err := p.transport.RoundTrip(p.outgoing(r, io.NopCloser(bytes.NewReader(body))))
	if err != nil {
		return nil, fmt.Errorf("stale: sending %s %s: %w", r.Method, r.URL.Path, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("stale: reading the answer to %s %s: %w", r.Method, r.URL.Path, err)
	}
	response.Header.Del("Content-Length")
	return &Answer{Code: response.StatusCode, Header: response.Header, Body: text}, nil
}

// outgoing is a request as it is sent to the API server.
func (p *Proxy) outgoing(r *http.Request, body io.ReadCloser) *http.Request {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = p.upstream.Scheme, p.upstream.Host, "", ""
	out.Body = body
	// The transport asks for compression on its own, and undoes it.
	out.Header.Del("Accept-Encoding")
	return out
}

// Writes lists the operator's writes so far.
func (p *Proxy) Writes() []Write {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Write(nil), p.writes...)
}

// Refused counts the operator's writes that were not carried out.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Asked lists the kinds that were listed or watched, with the parameters of the requests.
func (p *Proxy) Asked() map[schema.GroupVersionResource][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[schema.GroupVersionResource][]string{}
	for kind, ways := range p.asked {
		out[kind] = sets.List(ways)
	}
	return out
}

// settled reports whether the view moves, and the operator has made no write for a while.
func (p *Proxy) settled(now time.Time, since time.Duration) bool {
	p.view.mu.Lock()
	moved := p.view.moved
	frozen := p.view.released != nil
	p.view.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.writes) > 0 && p.writes[len(p.writes)-1].At.After(moved) {
		moved = p.writes[len(p.writes)-1].At
	}
	return !frozen && now.Sub(moved) >= since
}
