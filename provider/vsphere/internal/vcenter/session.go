package vcenter

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/clock"
)

// Endpoint is where a vCenter is, and how Drover verifies that it is that one.
type Endpoint struct {
	// Server is the host name or address, with or without a port.
	Server string
	// Port is used if Server has none; zero is 443.
	Port int
	// Insecure turns the verification of the certificate off.
	Insecure bool
	// CAFile is a file with the certificates of the authorities that may have signed the server's certificate; if it is empty, the system's authorities
	// count.
	CAFile string
	// Thumbprint is the thumbprint of the server's certificate; empty for none. A certificate that has it needs no known issuer.
	Thumbprint string
}

// Credentials are the user name and password for a vCenter.
type Credentials struct {
	Username, Password string
	// Secret is the name of the Secret that they are from, which errors name instead of the user.
	Secret string
}

// How long no login is tried after one has failed. A vCenter locks users out who fail to log in repeatedly.
const (
	minRetry      = time.Second
	maxRetry      = time.Minute
	minLoginRetry = 30 * time.Second
	// freeLogins are how many sessions that have ended soon are renewed at once.
	freeLogins = 2
)

// Calls counts calls; Observe may be called from many goroutines at the same time.
type Calls interface {
	// Observe is called after each call with the vCenter's name, the method's name, and the error that the call returned.
	Observe(server, method string, err error)
}

// login is a session of a user.
type login struct {
	client *vim25.Client
	rest   *restSession
}

// restSession is the session for the REST API, which has the tags. It begins when they are needed: without tags, or while the service of tags is
// down, the SOAP API is enough.
type restSession struct {
	soap   *vim25.Client
	calls  Calls
	user   *url.Userinfo
	server string
	secret string

	clock clock.PassiveClock

	mu sync.Mutex
	// client is nil until there is a session.
	client *rest.Client
	// backOff delays the next login after failed ones.
	backOff
}

// backOff is when the next login may be tried after failed ones, and why the last one failed.
type backOff struct {
	retry time.Time
	wait  time.Duration
	err   error
}

// failed delays the next login. A vCenter locks users out whose logins are refused.
func (b *backOff) failed(err error, refused bool, now time.Time) {
	least := minRetry
	if refused {
		least = minLoginRetry
	}
	b.wait = min(max(2*b.wait, least), maxRetry)
	b.retry, b.err = now.Add(b.wait), err
}

// tags returns what calls the service of tags.
func (r *restSession) tags(ctx context.Context) (*tags.Manager, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return tags.NewManager(r.client), nil
	}
	if r.clock.Now().Before(r.retry) {
		return nil, r.err
	}
	client := restClient(r.soap, r.calls, r.server)
	if err := client.Login(ctx, r.user); err != nil {
		err = fmt.Errorf("logging in to the REST API of vCenter %s with the credentials in Secret %s: %w", r.server, r.secret, err)
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.failed(stable(err), rest.IsStatusError(err, http.StatusUnauthorized), r.clock.Now())
		}
		return nil, err
	}
	r.client, r.backOff = client, backOff{}
	return tags.NewManager(client), nil
}

// drop forgets a session that has ended. A session that has begun since stays.
func (r *restSession) drop(ended *countedREST) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil && r.client.Transport == ended {
		r.client = nil
	}
}

// logout ends the session.
func (r *restSession) logout(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		// The vCenter ends a session that is not used.
		_ = r.client.Logout(ctx)
	}
}

// sessions logs in to a vCenter when a session is needed, once for all who wait for it.
type sessions struct {
	endpoint    Endpoint
	credentials Credentials
	calls       Calls
	clock       clock.PassiveClock
	// timeout is for a login.
	timeout time.Duration

	mu      sync.Mutex
	current *login
	// begun is when it began.
	begun time.Time
	// backOff delays the next login after failed ones, and after sessions that the vCenter has ended soon, which are short.
	backOff
	short int
}

// get returns the session, and logs in if there is none.
func (s *sessions) get(ctx context.Context) (*login, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return s.current, nil
	}
	if s.clock.Now().Before(s.retry) {
		return nil, s.err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	current, err := s.login(ctx)
	if err != nil {
		err = stable(err)
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.failed(err, fault.Is(err, &types.InvalidLogin{}), s.clock.Now())
		}
		return nil, err
	}
	s.current, s.begun = current, s.clock.Now()
	if s.short == 0 {
		s.backOff = backOff{}
	}
	return current, nil
}

// drop forgets a session that has ended with an error. A session that has begun since stays. An administrator may end a session at any time. If
// sessions keep ending soon, the vCenter accepts logins but ends their sessions, and each login must wait longer.
func (s *sessions) drop(ended *login, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != ended {
		return
	}
	s.current = nil
	if s.clock.Since(s.begun) >= maxRetry {
		s.short, s.backOff = 0, backOff{}
		return
	}
	if s.short++; s.short > freeLogins {
		s.failed(stable(fmt.Errorf("vCenter %s has ended the session: %w", s.endpoint.Server, err)), false, s.clock.Now())
	}
}

// logout ends the session.
func (s *sessions) logout(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return
	}
	s.current.rest.logout(ctx)
	// The vCenter ends a session that is not used.
	_ = session.NewManager(s.current.client).Logout(ctx)
	s.current = nil
}

func (s *sessions) login(ctx context.Context) (*login, error) {
	soapClient, err := s.endpoint.soapClient()
	if err != nil {
		return nil, err
	}
	client, err := vim25.NewClient(ctx, soapClient)
	if err != nil {
		return nil, fmt.Errorf("connecting to vCenter %s: %w", s.endpoint.Server, err)
	}
	if c := &client.ServiceContent; !client.IsVC() || c.SessionManager == nil || c.ViewManager == nil || c.SearchIndex == nil || c.TaskManager == nil {
		return nil, fmt.Errorf("connecting to vCenter %s: it is no vCenter: it says that it is %q", s.endpoint.Server, c.About.ApiType)
	}
	client.RoundTripper = &countedSOAP{client.RoundTripper, s.calls, s.endpoint.Server}
	user := url.UserPassword(s.credentials.Username, s.credentials.Password)
	if err := session.NewManager(client).Login(ctx, user); err != nil {
		return nil, fmt.Errorf("logging in to vCenter %s with the credentials in Secret %s: %w", s.endpoint.Server, s.credentials.Secret, err)
	}
	return &login{client: client, rest: &restSession{
		soap: client, calls: s.calls, user: user, server: s.endpoint.Server, secret: s.credentials.Secret, clock: s.clock,
	}}, nil
}

// soapClient returns a client that verifies the server and follows no redirect to another one.
func (e *Endpoint) soapClient() (*soap.Client, error) {
	address := e.address()
	client := soap.NewClient(&url.URL{Scheme: "https", Host: address, Path: vim25.Path}, e.Insecure)
	client.CheckRedirect = noRedirect
	if e.CAFile != "" {
		if err := client.SetRootCAs(e.CAFile); err != nil {
			return nil, fmt.Errorf("vCenter %s: reading the certificate authorities in %s: %w", e.Server, e.CAFile, err)
		}
	}
	transport := client.DefaultTransport()
	// The dials of govmomi have no deadlines: those to a server that accepts and does not answer would pile up.
	transport.DialTLSContext = nil
	transport.TLSClientConfig.MinVersion = tls.VersionTLS12
	if e.Thumbprint != "" && !e.Insecure {
		e.pin(transport.TLSClientConfig, address)
	}
	return client, nil
}

// pin has a connection accept the certificate with the thumbprint, also if no trusted authority has signed it.
func (e *Endpoint) pin(config *tls.Config, address string) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	config.InsecureSkipVerify = true // VerifyConnection verifies.
	config.VerifyConnection = func(state tls.ConnectionState) error {
		certificate, others := state.PeerCertificates[0], x509.NewCertPool()
		for _, other := range state.PeerCertificates[1:] {
			others.AddCert(other)
		}
		_, err := certificate.Verify(x509.VerifyOptions{DNSName: host, Roots: config.RootCAs, Intermediates: others})
		if err == nil || strings.EqualFold(e.Thumbprint, soap.ThumbprintSHA256(certificate)) ||
			strings.EqualFold(e.Thumbprint, soap.ThumbprintSHA1(certificate)) {
			return nil
		}
		return fmt.Errorf("the certificate has another thumbprint than %s: %w", e.Thumbprint, err)
	}
}

// restClient returns a client of the REST API whose calls are counted.
func restClient(client *vim25.Client, calls Calls, server string) *rest.Client {
	created := rest.NewClient(client)
	created.CheckRedirect = noRedirect
	created.Transport = &countedREST{created.Transport, calls, server}
	return created
}

// noRedirect makes an answer of a redirect, which is an error: a vCenter does not send Drover elsewhere, least of all to another host.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// address returns host and port.
func (e *Endpoint) address() string {
	if _, _, err := net.SplitHostPort(e.Server); err == nil || e.Port == 0 {
		return e.Server
	}
	return net.JoinHostPort(e.Server, strconv.Itoa(e.Port))
}

// isSessionEnded reports whether an error means that the session has to be renewed.
func isSessionEnded(err error) bool { return fault.Is(err, &types.NotAuthenticated{}) }

// countedSOAP counts the calls of the SOAP API.
type countedSOAP struct {
	soap.RoundTripper
	calls  Calls
	server string
}

// RoundTrip makes a call.
func (c *countedSOAP) RoundTrip(ctx context.Context, request, response soap.HasFault) error {
	err := c.RoundTripper.RoundTrip(ctx, request, response)
	c.calls.Observe(c.server, methodOf(request), err)
	return err
}

// countedREST counts the calls of the REST API, and notices that the session has ended.
type countedREST struct {
	http.RoundTripper
	calls  Calls
	server string
}

// RoundTrip makes a call.
func (c *countedREST) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(request)
	resource := resourceOf(request.URL.Path)
	c.calls.Observe(c.server, request.Method+" "+resource, err)
	refused, ok := request.Context().Value(refusedKey{}).(*atomic.Pointer[countedREST])
	if ok && err == nil && response.StatusCode == http.StatusUnauthorized && resource != resourceSession {
		refused.Store(c)
	}
	return response, err
}

// refusedKey is the key of the value of a context that gets the REST API which has answered a call that its session has ended. The errors of govmomi
// do not say that: some of them have only the text of their cause.
type refusedKey struct{}
