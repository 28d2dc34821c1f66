package healthcheck

import (
	"context"
	"errors"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"
)

// watchedCache reads from a client in memory, and passes the test the event handler of MachineHealthChecks.
type watchedCache struct {
	ctrlcache.Cache
	client   client.Client
	handlers chan toolscache.ResourceEventHandler
	err      error
}

func (w *watchedCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return w.client.Get(ctx, key, object, options...)
}

func (w *watchedCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return w.client.List(ctx, list, options...)
}

func (w *watchedCache) GetInformer(_ context.Context, object client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	if _, checks := object.(*machinev1beta1.MachineHealthCheck); checks {
		return &informer{handlers: w.handlers}, w.err
	}
	return &informer{}, w.err
}

type informer struct {
	ctrlcache.Informer
	handlers chan toolscache.ResourceEventHandler
}

func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.handlers != nil {
		i.handlers <- handler
	}
	return nil, nil
}

func (*informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// The whole controller, from an event to the write and to the end of its metrics.
func TestRun(t *testing.T) {
	s := newFixture(t, Options{})
	// The fixture's own client records writes, for one worker at a time.
	s.client = s.builder(newObjects("ww")...).Build()
	cache := &watchedCache{client: s.client, handlers: make(chan toolscache.ResourceEventHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		options := Options{Leases: &nodelease.Leases{Client: s.client, Holder: holder, Clock: s.clock}}
		ended <- Run(ctx, cache, s.client, record.NewFakeRecorder(100), s.metrics, options)
	}()
	(<-cache.handlers).OnAdd(newCheck("c"), true)
	for deadline := time.Now().Add(10 * time.Second); s.status("c").ExpectedMachines == nil && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	s.expectStatus("c", "2 2 2", nothingToDo)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.metric("mapi_machinehealthcheck_nodes_covered", "c", namespace) != -1 {
		t.Error("series still exist when it has ended")
	}
	cache.err = errors.New("no such kind")
	if err := Run(t.Context(), cache, s.client, record.NewFakeRecorder(100), s.metrics, Options{}); !errors.Is(err, cache.err) {
		t.Errorf("without informers Run returns %v", err)
	}
}

func TestNewReconciler_Defaults(t *testing.T) {
	r := NewReconciler(&cache{}, nil, nil, nil, Options{})
	if r.options.MaxUnseenStarts != 1 || r.options.Live != r.cache || r.clock == nil || r.clock.Since(r.startTime) > time.Minute {
		t.Errorf("%+v", r.options)
	}
}
