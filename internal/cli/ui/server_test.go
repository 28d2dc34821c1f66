package ui

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/maintenance"
	"github.com/drover-io/drover/internal/cli/status"
	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/cli/upgrade"
	"github.com/drover-io/drover/internal/ownership"
)

const testToken, testHost = "secret", "127.0.0.1:1234"

// newTestServer returns a server of a cluster in memory, which it follows until the test ends.
func newTestServer(t *testing.T, functions interceptor.Funcs, objects ...client.Object) *server {
	t.Helper()
	c := fakeBuilder(objects).WithInterceptorFuncs(functions).Build()
	u := newCluster(c, []string{"", cmdutil.DefaultNamespace}, ownership.DefaultProtected(), time.Now)
	u.interval = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- u.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return newServer(u, testHost, testToken)
}

// request returns a request as the page makes it.
func request(method, path string, header map[string]string) *http.Request {
	r := httptest.NewRequest(method, "http://"+testHost+path, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+testToken)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return r
}

func TestServer_WhoMayAsk(t *testing.T) {
	s := newTestServer(t, interceptor.Funcs{})
	const fleet = "/api/fleet"
	own := map[string]string{"Origin": "http://" + testHost, "Sec-Fetch-Site": "same-origin"}
	image := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
	for name, c := range map[string]struct {
		method, path string
		host         string
		header       map[string]string
		status       int
	}{
		"the page":             {path: fleet, header: own, status: http.StatusOK},
		"curl":                 {path: fleet, status: http.StatusOK},
		"by the name":          {path: fleet, host: "localhost:1234", header: map[string]string{"Origin": "http://localhost:1234"}, status: http.StatusOK},
		"no token":             {path: fleet, header: map[string]string{"Authorization": ""}, status: http.StatusUnauthorized},
		"a part of the token":  {path: fleet, header: map[string]string{"Authorization": "Bearer secre"}, status: http.StatusUnauthorized},
		"another scheme":       {path: fleet, header: map[string]string{"Authorization": "Basic secret"}, status: http.StatusUnauthorized},
		"no token for a node":  {path: "/api/nodes/n", header: map[string]string{"Authorization": ""}, status: http.StatusUnauthorized},
		"no token, no such":    {path: "/api/other", header: map[string]string{"Authorization": ""}, status: http.StatusUnauthorized},
		"no such document":     {path: "/api/other", status: http.StatusNotFound},
		"rebound name":         {path: fleet, host: "evil.example:1234", status: http.StatusMisdirectedRequest},
		"another port":         {path: fleet, host: "127.0.0.1:1235", status: http.StatusMisdirectedRequest},
		"another page":         {path: fleet, header: map[string]string{"Origin": "http://evil.example"}, status: http.StatusForbidden},
		"a page on the host":   {path: fleet, header: map[string]string{"Origin": "http://127.0.0.1:9"}, status: http.StatusForbidden},
		"a sandboxed frame":    {path: fleet, header: map[string]string{"Origin": "null"}, status: http.StatusForbidden},
		"an image elsewhere":   {path: "/icon.svg", header: image, status: http.StatusForbidden},
		"a link elsewhere":     {path: "/", header: navigation("document"), status: http.StatusOK},
		"a link to a document": {path: fleet, header: navigation("document"), status: http.StatusForbidden},
		"a frame elsewhere":    {path: "/", header: navigation("iframe"), status: http.StatusForbidden},
		"a write":              {method: http.MethodPost, path: fleet, status: http.StatusMethodNotAllowed},
		"another deletion":     {method: http.MethodDelete, path: "/", status: http.StatusMethodNotAllowed},
		"no name of a node":    {path: "/api/nodes/..%2f..%2fsecrets", status: http.StatusBadRequest},
		"no such node":         {path: "/api/nodes/none", status: http.StatusNotFound},
		"no file":              {path: "/server.go", status: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(cmp.Or(c.method, http.MethodGet), c.path, c.header)
			r.Host = cmp.Or(c.host, testHost)
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, r)
			if answer.Code != c.status {
				t.Errorf("status %d, want %d: %s", answer.Code, c.status, answer.Body)
			}
			for _, header := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy"} {
				if answer.Header().Get(header) == "" {
					t.Errorf("there is no %s", header)
				}
			}
			if answer.Header().Get("Access-Control-Allow-Origin") != "" || answer.Header().Get("Set-Cookie") != "" {
				t.Errorf("other pages are let in: %v", answer.Header())
			}
		})
	}
}

// navigation returns the headers of a browser that goes here from another page.
func navigation(into string) map[string]string {
	return map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": into}
}

func TestServer_Policy(t *testing.T) {
	for _, part := range []string{
		"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
	} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy lacks %s", part)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "data:") {
		t.Errorf("the policy allows what is not in a file: %s", policy)
	}
}

// TestServer_Files: the page's own files need neither inline scripts nor styles, and are not sent twice.
func TestServer_Files(t *testing.T) {
	s := newTestServer(t, interceptor.Funcs{})
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request(http.MethodGet, "/", nil))
	page := answer.Body.String()
	if answer.Code != http.StatusOK || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html") || !strings.Contains(page, "app.js") {
		t.Fatalf("status %d, %s: %s", answer.Code, answer.Header().Get("Content-Type"), page)
	}
	if strings.Contains(page, "<style") || strings.Contains(page, "style=") || strings.Contains(page, "<script>") {
		t.Errorf("there are inline scripts or styles: %s", page)
	}
	again := httptest.NewRecorder()
	s.ServeHTTP(again, request(http.MethodGet, "/", map[string]string{"If-None-Match": answer.Header().Get("ETag")}))
	if again.Code != http.StatusNotModified {
		t.Errorf("the second time: status %d", again.Code)
	}
}

// TestServer_MediaTypes: the types of the files do not depend on the computer, whose own for scripts may be one that the browser refuses.
func TestServer_MediaTypes(t *testing.T) {
	before := mime.TypeByExtension(".js")
	if err := mime.AddExtensionType(".js", "text/plain"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mime.AddExtensionType(".js", before); err != nil {
			t.Error(err)
		}
	})
	files := filesOf(assets())
	if got := files["app.js"].mediaType; !strings.HasPrefix(got, "text/javascript") {
		t.Errorf("the script is %q", got)
	}
	for name, file := range files {
		if file.mediaType == "" {
			t.Errorf("%s has no type", name)
		}
	}
}

// TestServer_PortOfHTTP: a browser leaves port 80 out of the host and the origin.
func TestServer_PortOfHTTP(t *testing.T) {
	s := newServer(newTestServer(t, interceptor.Funcs{}).cluster, "127.0.0.1:80", testToken)
	r := request(http.MethodGet, "/api/fleet", map[string]string{"Origin": "http://127.0.0.1"})
	r.Host = "127.0.0.1"
	answer := httptest.NewRecorder()
	if s.ServeHTTP(answer, r); answer.Code != http.StatusOK {
		t.Errorf("status %d: %s", answer.Code, answer.Body)
	}
}

// TestServer_SameDocuments: the documents that the command line has as well are the same.
func TestServer_SameDocuments(t *testing.T) {
	s := newTestServer(t, interceptor.Funcs{}, newFleet(t, 60, time.Now())...)
	until(openStream(t, s), "cluster", func(c Cluster) bool { return c.Complete })
	for path, c := range map[string]struct {
		command func(*cmdutil.Options) *cobra.Command
		args    []string
	}{
		"status":       {status.NewCommand, []string{"-A", "-o", "json"}},
		"maintenances": {maintenance.NewCommand, []string{"list", "-o", "json"}},
		"upgrades":     {upgrade.NewCommand, []string{"status", "-o", "json"}},
	} {
		t.Run(path, func(t *testing.T) {
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			o := cmdutil.NewOptions(streams)
			o.Connect = func() (client.WithWatch, error) { return s.cluster.client, nil }
			o.Now = s.cluster.now
			command := c.command(o)
			command.SetArgs(c.args)
			if err := command.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			answer := httptest.NewRecorder()
			s.ServeHTTP(answer, request(http.MethodGet, "/api/"+path, nil))
			if got, want := fieldsOf(t, answer.Body.Bytes()), fieldsOf(t, out.Bytes()); !reflect.DeepEqual(got, want) {
				t.Errorf("the page has\n%v\nthe command line\n%v", got, want)
			}
		})
	}
}

func fieldsOf(t *testing.T, text []byte) (fields map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return fields
}

// TestServer_SlowReader: a connection that sends requests and does not read the answers ends. A stream lives longer than that.
func TestServer_SlowReader(t *testing.T) {
	s := newTestServer(t, interceptor.Funcs{})
	server := newHTTPServer(s)
	if server.WriteTimeout <= commandTimeout {
		t.Fatalf("an answer may take %s, a command %s", server.WriteTimeout, commandTimeout)
	}
	listening := httptest.NewUnstartedServer(s)
	listening.Config = server
	server.WriteTimeout = 200 * time.Millisecond
	host := listening.Listener.Addr().String()
	s.hosts[host] = true
	listening.Start()
	t.Cleanup(listening.Close)
	t.Cleanup(s.close)
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	if err := connection.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The writes end with an error when the server has closed the connection.
	text := []byte("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
	for err = nil; err == nil; {
		_, err = connection.Write(text)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is kept")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, listening.URL+"/api/stream", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // the stream has been read
	stream := &events{t, bufio.NewScanner(answer.Body)}
	begun := time.Now()
	for i := 0; time.Since(begun) < 2*server.WriteTimeout; i++ {
		if err := s.cluster.client.Create(t.Context(), builder.Node(nodeName(i))); err != nil {
			t.Fatal(err)
		}
		until(stream, "fleet", func(changes model.Changes[model.Cell]) bool {
			return slices.ContainsFunc(changes.Set, func(cell model.Cell) bool { return cell.Name == nodeName(i) })
		})
	}
}
