package vcenter

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	testingclock "k8s.io/utils/clock/testing"
)

// observed records the methods that are counted.
type observed struct {
	mu      sync.Mutex
	methods []string
}

func (o *observed) Observe(_, method string, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.methods = append(o.methods, method)
}

// TestSessions_Unavailable: each text of a failing login would be a write of every Machine.
func TestSessions_Unavailable(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	clock := testingclock.NewFakeClock(time.Now())
	s := &sessions{
		endpoint: Endpoint{Server: server.Listener.Addr().String(), Insecure: true}, credentials: Credentials{Username: "hidden", Secret: "ns/vc"},
		calls: &observed{}, clock: clock, timeout: time.Second,
	}
	var texts []string
	for range 8 {
		_, err := s.get(t.Context())
		if err == nil {
			t.Fatal("the login succeeds")
		}
		texts = append(texts, err.Error())
		clock.Step(700 * time.Millisecond)
	}
	if different := slices.Compact(slices.Clone(texts)); len(different) > 1 || strings.Contains(texts[0], "hidden") {
		t.Errorf("the texts are\n%s", strings.Join(different, "\n"))
	}
}

// TestRedirects: a vCenter that answers each call with a redirect, to paths of its choice, is not followed, and adds no metrics.
func TestRedirects(t *testing.T) {
	visited := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visited++
		http.Redirect(w, r, fmt.Sprintf("/elsewhere/%d", visited), http.StatusFound)
	}))
	defer server.Close()
	endpoint := Endpoint{Server: server.Listener.Addr().String(), Insecure: true}
	client, err := endpoint.soapClient()
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusFound || visited != 1 {
		t.Errorf("SOAP: status %d after %d calls", response.StatusCode, visited)
	}
	calls := &observed{}
	rest := restClient(&vim25.Client{Client: client, RoundTripper: client}, calls, "vc")
	if err := rest.Login(t.Context(), url.UserPassword("user", "password")); err == nil || visited != 2 {
		t.Errorf("REST: error %v after %d calls", err, visited)
	}
	if want := []string{"POST rest/com/vmware/cis/session"}; !slices.Equal(calls.methods, want) {
		t.Errorf("the metrics have %q, want %q", calls.methods, want)
	}
}

func TestResourceOf(t *testing.T) {
	for path, want := range map[string]string{
		"/rest/com/vmware/cis/session":                              "rest/com/vmware/cis/session",
		"/rest/com/vmware/cis/tagging/tag":                          "rest/com/vmware/cis/tagging/tag",
		"/rest/com/vmware/cis/tagging/tag/id:urn:vmomi:X":           "rest/com/vmware/cis/tagging/tag/ID",
		"/rest/com/vmware/cis/tagging/tag-association":              "rest/com/vmware/cis/tagging/tag-association",
		"/rest/com/vmware/cis/tagging/category/id:a/chosen/by/them": "rest/com/vmware/cis/tagging/category/ID",
		"/rest/com/vmware/cis/tagging/categoryx":                    "other",
		"/anything/1":                                               "other",
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// TestSOAPClient_Deadline: a connection to a server that accepts and does not answer ends.
func TestSOAPClient_Deadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	endpoint := Endpoint{Server: listener.Addr().String(), Insecure: true}
	client, err := endpoint.soapClient()
	if err != nil {
		t.Fatal(err)
	}
	if client.DefaultTransport().TLSHandshakeTimeout == 0 {
		t.Error("there is no deadline")
	}
	client.DefaultTransport().TLSHandshakeTimeout = 10 * time.Millisecond
	response, err := client.Get("https://" + endpoint.Server)
	if err == nil {
		_ = response.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "TLS handshake timeout") {
		t.Errorf("error %v", err)
	}
}

// TestSOAPClient_Thumbprint: a certificate of no trusted authority is accepted with its thumbprint alone.
func TestSOAPClient_Thumbprint(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	right := soap.ThumbprintSHA256(server.Certificate())
	for thumbprint, want := range map[string]string{
		right: "", strings.ToLower(right): "", soap.ThumbprintSHA1(server.Certificate()): "",
		"": "unknown authority", "AB:CD": "another thumbprint than AB:CD",
	} {
		endpoint := Endpoint{Server: server.Listener.Addr().String(), Thumbprint: thumbprint}
		client, err := endpoint.soapClient()
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(server.URL)
		if err == nil {
			_ = response.Body.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("thumbprint %q: %v, want %q", thumbprint, err, want)
		}
	}
}

// TestSessions_EndSoon: a vCenter that accepts logins and ends their sessions gets fewer and fewer of them. A session that has lasted is renewed at
// once.
func TestSessions_EndSoon(t *testing.T) {
	v, _, _ := newSimulated(t)
	clock, calls := testingclock.NewFakeClock(time.Now()), &observed{}
	s := &sessions{endpoint: v.endpoint, credentials: v.sessions.credentials, calls: calls, clock: clock, timeout: time.Minute}
	logins := func() int {
		return len(slices.DeleteFunc(slices.Clone(calls.methods), func(method string) bool { return method != "Login" }))
	}
	for end := clock.Now().Add(2 * time.Minute); clock.Now().Before(end); clock.Step(100 * time.Millisecond) {
		if current, err := s.get(t.Context()); err == nil {
			s.drop(current, errors.New("not authenticated"))
		}
	}
	if made := logins(); made < 5 || made > 10 {
		t.Errorf("there were %d logins in two minutes", made)
	}
	clock.Step(maxRetry)
	for range 2 {
		before := logins()
		current, err := s.get(t.Context())
		if err != nil || logins() != before+1 {
			t.Fatalf("%d logins, error %v", logins()-before, err)
		}
		clock.Step(maxRetry)
		s.drop(current, errors.New("not authenticated"))
	}
}

// TestPollAgain: tasks that cannot be read are looked at less and less often.
func TestPollAgain(t *testing.T) {
	wait, looks := time.Duration(0), 0
	for at := time.Duration(0); at < 2*time.Minute; at += wait {
		wait = pollAgain(wait, errors.New("it fails"))
		looks++
	}
	if looks > 10 || pollAgain(wait, nil) != 0 {
		t.Errorf("there were %d looks in two minutes", looks)
	}
}
