package ui

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/cli/view"
)

// server serves the page and its documents. Other pages in the same browser, and other users of the computer, get nothing:
//
//   - The name in the address has to be the loopback interface's, so no other name can be made to point here (DNS rebinding).
//   - A request that a browser sends for another page is refused.
//   - A document needs the token, in a header that no other page can set. There are no cookies: they belong to all ports of a host.
type server struct {
	cluster *cluster
	token   string
	// hosts are the names under which the page is served, and origins the pages that may ask.
	hosts, origins map[string]bool
	files          map[string]file
	routes         *http.ServeMux
	// flags are what the user gave and other commands take as well.
	flags flags
	// streams has a value for each stream that is open, and commands one for each command that runs.
	streams, commands chan struct{}
	// closing is closed when streams are to end.
	closing   chan struct{}
	closeOnce sync.Once
}

// file is a file of the page.
type file struct {
	content   []byte
	mediaType string
	tag       string
}

// maxStreams is how many pages may be open at once.
const maxStreams = 16

func newServer(cluster *cluster, address, token string) *server {
	s := &server{
		cluster: cluster, token: token, hosts: map[string]bool{}, origins: map[string]bool{}, files: filesOf(assets()), routes: http.NewServeMux(),
		streams: make(chan struct{}, maxStreams), commands: make(chan struct{}, maxCommands), closing: make(chan struct{}),
	}
	// The listener has said its address.
	_, port, _ := net.SplitHostPort(address)
	for _, name := range []string{"127.0.0.1", "localhost"} {
		host := net.JoinHostPort(name, port)
		if port == "80" {
			// A browser leaves the port of HTTP out.
			host = name
		}
		s.hosts[host], s.origins["http://"+host] = true, true
	}
	s.routes.HandleFunc("GET /", s.serveFile)
	tracker := cluster.tracker
	s.handleDocument("cluster", func(context.Context) any {
		document, _ := cluster.document()
		return document
	})
	s.handleDocument("fleet", func(context.Context) any { return tracker.Fleet() })
	s.handleDocument("waits", func(context.Context) any { return tracker.WaitList() })
	s.handleDocument("progress", func(context.Context) any { return tracker.Progress() })
	s.handleDocument("status", func(ctx context.Context) any { return tracker.Status(ctx, cluster.now()) })
	s.handleDocument("maintenances", func(context.Context) any { return view.NewMaintenanceList(tracker.Maintenances()) })
	s.handleDocument("upgrades", func(context.Context) any { return view.NewUpgradeStatusList(tracker.Runs()) })
	s.routes.Handle("GET /api/nodes/{name}", s.authorized(s.serveNode))
	s.routes.Handle("GET /api/stream", s.authorized(s.serveStream))
	s.routes.Handle("POST /api/plan", s.authorized(s.servePlan))
	if cluster.write {
		s.routes.Handle("POST /api/actions", s.authorized(s.serveAction))
	} else {
		s.routes.Handle("POST /api/actions", s.authorized(refuseAction))
	}
	s.routes.Handle("GET /api/", s.authorized(http.NotFound))
	return s
}

// close ends all streams.
func (s *server) close() { s.closeOnce.Do(func() { close(s.closing) }) }

// policy allows the page its own files and requests. Nothing in it can become markup or a script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP checks where a request comes from, and serves it.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if !s.hosts[r.Host] {
		http.Error(w, "this page is served as 127.0.0.1 and localhost only", http.StatusMisdirectedRequest)
		return
	}
	if !s.isOwn(r) {
		http.Error(w, "another page may not ask", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodGet && (r.Method != http.MethodPost || !strings.HasPrefix(r.URL.Path, "/api/")) {
		header.Set("Allow", http.MethodGet)
		http.Error(w, "the page is for reading", http.StatusMethodNotAllowed)
		return
	}
	s.routes.ServeHTTP(w, r)
}

// isOwn reports whether a request comes from the page itself, from the address bar, or from a program that is no browser. A link on another page may
// open the page: it can read nothing of it.
func (s *server) isOwn(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && !s.origins[origin] {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && !strings.HasPrefix(r.URL.Path, "/api/")
}

// authorized serves requests with the token.
func (s *server) authorized(serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found || subtle.ConstantTimeCompare([]byte(given), []byte(s.token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "open the page at the address that kubectl drover ui has printed", http.StatusUnauthorized)
			return
		}
		serve(w, r)
	})
}

// handleDocument serves a value as JSON.
func (s *server) handleDocument(name string, of func(context.Context) any) {
	s.routes.Handle("GET /api/"+name, s.authorized(func(w http.ResponseWriter, r *http.Request) { writeJSON(w, of(r.Context())) }))
}

func writeJSON(w http.ResponseWriter, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, model.Text("rendering the document: "+err.Error(), maxText), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// If the client is gone, the error has no reader.
	_, _ = w.Write(append(text, '\n'))
}

// serveNode serves the document of a node.
func (s *server) serveNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		http.Error(w, "this is not the name of a node", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), nodeTimeout)
	defer cancel()
	page, err := s.cluster.nodePage(ctx, name)
	switch {
	case err == nil:
		writeJSON(w, page)
	case apierrors.IsNotFound(err):
		http.Error(w, "there is no node of this name", http.StatusNotFound)
	case errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "the API server does not answer", http.StatusGatewayTimeout)
	default:
		http.Error(w, model.Text(err.Error(), maxText), http.StatusBadGateway)
	}
}

// serveFile serves a file of the page. The page itself has no secrets.
func (s *server) serveFile(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}
	found, ok := s.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", found.tag)
	if r.Header.Get("If-None-Match") == found.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", found.mediaType)
	// If the client is gone, the error has no reader.
	_, _ = w.Write(found.content)
}

// mediaTypes are those of the files of the page. Those that this computer has for an extension can be others, and the browser refuses a script that
// is text/plain.
var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8",
}

// filesOf returns the files of the page with their headers.
func filesOf(contents map[string][]byte) map[string]file {
	files := make(map[string]file, len(contents))
	for name, content := range contents {
		sum := sha256.Sum256(content)
		files[name] = file{content: content, mediaType: mediaTypes[path.Ext(name)], tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return files
}
