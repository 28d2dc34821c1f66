package operator

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/drover-io/drover/internal/undecodable"
)

// TestOwnConnection: requests of one client share a connection. Requests of a configuration with its own connection do not use the connection of the
// others.
func TestOwnConnection(t *testing.T) {
	var mu sync.Mutex
	connections := map[string]sets.Set[string]{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if request.ProtoMajor != 2 {
			t.Errorf("the protocol is %s", request.Proto)
		}
		of, found := connections[request.URL.Path]
		if !found {
			of = sets.New[string]()
			connections[request.URL.Path] = of
		}
		of.Insert(request.RemoteAddr)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	for path, config := range map[string]*rest.Config{
		"/writes": config, "/reads": rest.CopyConfig(config), "/watches": ownConnection(config), "/machines": ownConnection(config),
	} {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			response, err := client.Get(server.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := sets.New[string]()
	for path, of := range connections {
		if len(of) != 1 {
			t.Errorf("%s came on %v", path, of)
		}
		all = all.Union(of)
	}
	if len(all) != 3 {
		t.Errorf("the connections are %v, want one for writes and reads, and one for each of the others", connections)
	}
}

// TestNewCache_OwnConnection: the cache does not watch on the connection of the other clients.
func TestNewCache_OwnConnection(t *testing.T) {
	watches := make(chan string, 100)
	var others string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/api/v1/nodes" {
			select {
			case watches <- request.RemoteAddr:
			default:
			}
		} else {
			others = request.RemoteAddr
		}
		writer.WriteHeader(http.StatusForbidden)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(server.URL + "/other")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newCache(undecodable.NewTracker())(config, cache.Options{Scheme: scheme, Mapper: newMapper(), HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetInformer(t.Context(), &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(t.Context()) }()
	select {
	case from := <-watches:
		if from == others {
			t.Errorf("both come from %s", from)
		}
	case <-time.After(time.Minute):
		t.Error("the cache asked for no Nodes")
	}
}
