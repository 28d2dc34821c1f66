package operator

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/openshift"
)

// apiServer is a round-tripper that answers as an API server does that has an Infrastructure object and no Deployment, or fails.
type apiServer struct {
	codecs serializer.CodecFactory
	mu     sync.Mutex
	fails  map[string]*apierrors.StatusError
	asked  map[string]int
}

const (
	deploymentPath     = "/apis/apps/v1/namespaces/openshift-machine-api/deployments/machine-api-controllers"
	infrastructurePath = "/apis/config.openshift.io/v1/infrastructures/cluster"
)

// fail makes the API server answer a path with an error; nil for none.
func (a *apiServer) fail(path string, err *apierrors.StatusError) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fails[path] = err
}

// requests returns how often a path has been asked for.
func (a *apiServer) requests(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[path]
}

func (a *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[request.URL.Path]++
	var object runtime.Object = &configv1.Infrastructure{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Status: configv1.InfrastructureStatus{InfrastructureName: "blue-x7k2p"},
	}
	code := http.StatusOK
	failure := a.fails[request.URL.Path]
	if failure == nil && request.URL.Path != infrastructurePath {
		failure = apierrors.NewNotFound(appsv1.Resource("deployments"), "machine-api-controllers")
	}
	if failure != nil {
		status := failure.Status()
		object, code = &status, int(status.Code)
	}
	version := schema.GroupVersions{configv1.GroupVersion, metav1.SchemeGroupVersion, schema.GroupVersion{Version: "v1"}}
	body, err := runtime.Encode(a.codecs.LegacyCodec(version...), object)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}, err
}

// newMachinesPlant returns a capability manager whose capability asks what machines asks of an API server, through real clients.
func newMachinesPlant(t *testing.T) (*plant, *apiServer, *string) {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	a := &apiServer{codecs: serializer.NewCodecFactory(scheme), fails: map[string]*apierrors.StatusError{}, asked: map[string]int{}}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(configv1.GroupVersion.WithKind("Infrastructure"), meta.RESTScopeRoot)
	config := &rest.Config{Host: "http://api", Transport: a, QPS: -1}
	live, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	discovery, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	p, cluster := newPlant(), new(string)
	p.server.serve(nil, "machinesets", "machines")
	c := &p.capabilities[0]
	other := besideMAO(live, discovery)
	other.named = true
	c.blocked = other.present
	c.lookup = func(ctx context.Context) (err error) {
		*cluster, err = openshift.ClusterName(ctx, live)
		return err
	}
	return p, a, cluster
}

func forbidden() *apierrors.StatusError {
	return apierrors.NewForbidden(appsv1.Resource("deployments"), "machine-api-controllers", errors.New("no RBAC policy matched"))
}

func unavailable() *apierrors.StatusError {
	return apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
}

// expectLine compares the one line of /readyz?verbose.
func (p *plant) expectLine(t *testing.T, parts ...string) {
	t.Helper()
	synctest.Wait()
	line := strings.Join(p.lines(), "\n")
	if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
		t.Errorf("got %q, want %q", line, parts)
	}
	if err := p.ready(); err != nil {
		t.Errorf("ready: %v", err)
	}
}

// An API server that has just started denies everything until its authorizer has read the Roles.
func TestCapability_SurvivesTransientDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, api, _ := newMachinesPlant(t)
		api.fail(deploymentPath, forbidden())
		p.operate(t, func(t *testing.T, p *plant) {
			p.elect()
			time.Sleep(5 * time.Second)
			p.expectLine(t, "off", "no RBAC policy matched", "trying again")
			api.fail(deploymentPath, nil)
			p.expect(t, runs, true)
			// Denied while it runs, for a moment or permanently: it continues, with its caches.
			for _, d := range []time.Duration{5 * time.Second, time.Hour} {
				time.Sleep(blockedInterval)
				api.fail(deploymentPath, forbidden())
				time.Sleep(d + blockedInterval)
				p.expectLine(t, runs, "no RBAC policy matched", "trying again")
				api.fail(deploymentPath, nil)
				time.Sleep(blockedInterval)
				p.expect(t, runs, true)
			}
			if got := p.history(); got != "prepare run" || len(p.cache.dropped) != 0 {
				t.Errorf("history %s, dropped caches %v", got, p.cache.dropped)
			}
		})
	})
}

func TestCapability_StaysOffWithoutPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, api, _ := newMachinesPlant(t)
		api.fail(deploymentPath, forbidden())
		p.operate(t, func(t *testing.T, p *plant) {
			p.elect()
			time.Sleep(confirmDenied + maxRecheck)
			p.expectLine(t, "off", "no RBAC policy matched", "apply config/machines")
			if line := p.lines()[0]; strings.Contains(line, "trying again") {
				t.Errorf("the denial is not confirmed: %s", line)
			}
			before := api.requests(deploymentPath)
			time.Sleep(time.Hour)
			if n := api.requests(deploymentPath) - before; n > 61 {
				t.Errorf("asked %d times in an hour", n)
			}
			api.fail(deploymentPath, nil)
			time.Sleep(blockedInterval)
			p.expect(t, runs, true)
		})
	})
}

func TestCapability_RetriesWhatFailsWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, api, _ := newMachinesPlant(t)
		p.operate(t, func(t *testing.T, p *plant) {
			p.elect()
			p.expect(t, runs, true)
			time.Sleep(2 * settlePeriod)
			api.fail(deploymentPath, unavailable())
			time.Sleep(blockedInterval)
			p.expectLine(t, runs, "etcdserver: leader changed", "trying again")
			before := api.requests(deploymentPath)
			time.Sleep(10 * time.Minute)
			if n := api.requests(deploymentPath) - before; n < 10 || n > 25 {
				t.Errorf("asked %d times in ten minutes", n)
			}
			api.fail(deploymentPath, nil)
			time.Sleep(maxRecheck)
			p.expect(t, runs, true)
			if got := p.history(); got != "prepare run" {
				t.Errorf("history %s", got)
			}
		})
	})
}

func TestCapability_RetriesItsLookup(t *testing.T) {
	for name, c := range map[string]struct {
		failure *apierrors.StatusError
		lasts   time.Duration
		cluster string
	}{
		"an error":           {unavailable(), 10 * time.Minute, "blue-x7k2p"},
		"a transient denial": {forbidden(), 5 * time.Second, "blue-x7k2p"},
		"no permission":      {forbidden(), time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, api, cluster := newMachinesPlant(t)
				api.fail(infrastructurePath, c.failure)
				p.operate(t, func(t *testing.T, p *plant) {
					p.elect()
					time.Sleep(4 * time.Second)
					p.expectLine(t, stateStandby, c.failure.Error(), "trying again")
					time.Sleep(c.lasts)
					api.fail(infrastructurePath, nil)
					time.Sleep(maxRecheck)
					p.expect(t, runs, true)
					if *cluster != c.cluster || p.history() != "prepare run" {
						t.Errorf("cluster %q, history %s", *cluster, p.history())
					}
				})
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: recheck, 2: 2 * recheck, 5: 16 * recheck, 6: maxRecheck, 1000: maxRecheck} {
		if got := backoff(failures); got != want {
			t.Errorf("%d failures: %s, want %s", failures, got, want)
		}
	}
}
