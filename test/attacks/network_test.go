package attacks

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const stranger = "Pod in the cluster network"

// exposed is an operator with all of its endpoints, as a Pod that no NetworkPolicy keeps away sees it.
type exposed struct {
	*harness.Operator
	metrics, webhook string
	token            string
}

func newExposed(t *testing.T, w *harness.World) *exposed {
	t.Helper()
	address, err := harness.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, text := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	token, err := harness.MetricsToken(t.Context(), env, w.Client)
	if err != nil {
		t.Fatal(err)
	}
	operator := w.Operator(harness.Options{Args: []string{
		"--webhook-bind-address=" + address, "--webhook-certificates=Files", "--webhook-cert-dir=" + folder,
	}})
	w.Eventually("the endpoints are served", func() error {
		for _, at := range []string{address, strings.TrimPrefix(operator.Metrics, "https://")} {
			connection, err := dial(t.Context(), "127.0.0.1", at)
			if err != nil {
				return err
			}
			_ = connection.Close()
		}
		return nil
	})
	return &exposed{Operator: operator, metrics: strings.TrimPrefix(operator.Metrics, "https://"), webhook: address, token: token}
}

// dial opens a connection with TLS from an address of its own, and asks for HTTP/2.
func dial(ctx context.Context, from, to string) (*tls.Conn, error) {
	connection, err := (&tls.Dialer{
		NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second},
		//nolint:gosec // an attacker does not mind whose certificate it is
		Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}},
	}).DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, err
	}
	return connection.(*tls.Conn), nil //nolint:errcheck // a tls.Dialer makes no other
}

// clientFrom is an HTTP client whose connections come from an address.
func clientFrom(t *testing.T, from string) *http.Client {
	t.Helper()
	transport := &http.Transport{
		MaxIdleConnsPerHost: 8,
		DialTLSContext: func(ctx context.Context, _, to string) (net.Conn, error) {
			return (&tls.Dialer{
				NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}},
				Config:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // an attacker does not mind whose certificate it is
			}).DialContext(ctx, "tcp", to)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// ask makes a request, and returns the code and the text of the answer.
func ask(ctx context.Context, client *http.Client, method, url, token string, body io.Reader) (code int, text string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

func TestNetwork_Metrics(t *testing.T) {
	w := harness.NewWorld(t, env)
	operator := newExposed(t, w)
	attacker, prometheus := clientFrom(t, "127.0.0.2"), clientFrom(t, "127.0.0.1")
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/configz", "/"} {
		attack(t, stranger, "reads "+path, func(t *testing.T) string {
			code, _, err := ask(t.Context(), attacker, http.MethodGet, operator.Metrics+path, operator.token, nil)
			if err != nil || code != http.StatusNotFound {
				t.Errorf("with a token that may read metrics the answer is %d, %v", code, err)
			}
			code, _, err = ask(t.Context(), attacker, http.MethodGet, operator.Probes+path, "", nil)
			if err != nil || code != http.StatusNotFound {
				t.Errorf("beside the probes the answer is %d, %v", code, err)
			}
			return "there is no such page"
		})
	}
	attack(t, stranger, "has Drover ask the API server about 500 tokens at once", func(t *testing.T) string {
		return floodTokens(t, w, operator, attacker, prometheus)
	})
}

// floodTokens counts the TokenReviews that an attacker without any right causes. Prometheus is served meanwhile.
func floodTokens(t *testing.T, w *harness.World, operator *exposed, attacker, prometheus *http.Client) string {
	t.Helper()
	const tokens, writers = 500, 25
	mark, begun := w.AuditMark(), time.Now()
	var refused, failed atomic.Int64
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for i := range tokens / writers {
				code, _, err := ask(t.Context(), attacker, http.MethodGet, operator.Metrics+"/metrics", fmt.Sprintf("token-%d-%d", writer, i), nil)
				switch {
				case err != nil:
					failed.Add(1)
				case code == http.StatusTooManyRequests:
					refused.Add(1)
				case code != http.StatusUnauthorized && code != http.StatusInternalServerError:
					t.Errorf("the answer is %d", code)
				}
			}
		})
	}
	code, _, err := ask(t.Context(), prometheus, http.MethodGet, operator.Metrics+"/metrics", operator.token, nil)
	if err != nil || code != http.StatusOK {
		t.Errorf("Prometheus is answered %d, %v", code, err)
	}
	group.Wait()
	took := time.Since(begun)
	if _, err := env.Audit().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	counts, err := env.Audit().Counts(mark, func(e *cluster.AuditEvent) bool { return e.User == harness.User && e.Resource == "tokenreviews" })
	if err != nil {
		t.Fatal(err)
	}
	// Ten a second, eight at the start, and one of Prometheus.
	reviews, most := counts.Total(nil), int(took.Seconds()*10)+8+1+2
	if reviews > most {
		t.Errorf("%d TokenReviews in %s, at most %d are expected", reviews, took, most)
	}
	if refused.Load()+failed.Load() == 0 {
		t.Error("nothing was refused")
	}
	return fmt.Sprintf("bounds before anybody is asked: %d of %d answered with 429, %d connections refused, %d TokenReviews in %s",
		refused.Load(), tokens, failed.Load(), reviews, took.Round(time.Millisecond))
}

func TestNetwork_Webhook(t *testing.T) {
	w := harness.NewWorld(t, env)
	operator := newExposed(t, w)
	attacker, apiServer := clientFrom(t, "127.0.0.2"), clientFrom(t, "127.0.0.1")
	path := "https://" + operator.webhook + "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance"
	served := func(t *testing.T) {
		t.Helper()
		if code, text, err := ask(t.Context(), apiServer, http.MethodPost, path, "", strings.NewReader("{}")); err != nil || code != http.StatusOK {
			t.Errorf("the API server is answered %d %s, %v", code, text, err)
		}
	}
	served(t)
	for name, address := range map[string]string{"the webhook": operator.webhook, "the metrics": operator.metrics} {
		attack(t, stranger, "resets streams of HTTP/2 at "+name, func(t *testing.T) string {
			connection, err := dial(t.Context(), "127.0.0.2", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = connection.Close() }()
			if protocol := connection.ConnectionState().NegotiatedProtocol; protocol != "http/1.1" {
				t.Errorf("%q was agreed on", protocol)
			}
			return "HTTP/2 is not offered"
		})
	}
	attack(t, stranger, "sends a body of 64 MiB", func(t *testing.T) string {
		body := strings.NewReader(`{"kind":"AdmissionReview","x":"` + strings.Repeat("x", 64<<20))
		code, text, err := ask(t.Context(), attacker, http.MethodPost, path, "", body)
		if err == nil && !strings.Contains(text, "too large") {
			t.Errorf("the answer is %d %s", code, text)
		}
		served(t)
		return fmt.Sprintf("a bound on bodies: %s %v", strings.TrimSpace(text), err)
	})
	attack(t, stranger, "opens 1,000 connections and sends its requests one byte at a time", func(t *testing.T) string {
		return slowLoris(t, operator.webhook, served)
	})
}

// The webhook accepts clientConnections connections of a client. It closes a connection that sends no request within headerTimeout.
const (
	clientConnections = 128
	headerTimeout     = 5 * time.Second
)

// slowLoris opens connections and keeps them busy without an end. It returns when the server has closed all of them.
func slowLoris(t *testing.T, address string, served func(*testing.T)) string {
	t.Helper()
	var held []*tls.Conn
	begun, refused := time.Now(), 0
	for range 1000 {
		connection, err := dial(t.Context(), "127.0.0.2", address)
		if err == nil {
			_, err = io.WriteString(connection, "POST / HTTP/1.1\r\nHost: x\r\nX: ")
		}
		if err != nil {
			refused++
			continue
		}
		held = append(held, connection)
	}
	// On a busy machine the connections are not all opened before headerTimeout. New connections then take the place of closed ones.
	if most := clientConnections * (1 + int(time.Since(begun)/headerTimeout)); len(held) > most {
		t.Errorf("%d connections were accepted and %d refused, at most %d should be accepted", len(held), refused, most)
	}
	served(t)
	closed := 0
	for _, connection := range held {
		if err := connection.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		// What the server says before it closes the connection does not matter.
		if _, err := io.Copy(io.Discard, connection); err == nil {
			closed++
		}
		_ = connection.Close()
	}
	if closed < len(held) {
		t.Errorf("%d of %d connections stayed open", len(held)-closed, len(held))
	}
	served(t)
	return fmt.Sprintf("a bound on the connections of a client and on the time of a request: %d refused, %d closed after %s",
		refused, closed, time.Since(begun).Round(time.Second))
}
