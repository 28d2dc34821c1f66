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

// watchedClient is a cache that reads from a client in memory, and hands the test what the controller hears MachineHealthChecks with.
type watchedClient struct {
	ctrlcache.Cache
	client client.Client
	heard  chan toolscache.ResourceEventHandler
	refuse error
}

func (w *watchedClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return w.client.Get(ctx, key, object, options...)
}

func (w *watchedClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return w.client.List(ctx, list, options...)
}

func (w *watchedClient) GetInformer(_ context.Context, object client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	if _, checks := object.(*machinev1beta1.MachineHealthCheck); checks {
		return &informer{heard: w.heard}, w.refuse
	}
	return &informer{}, w.refuse
}

type informer struct {
	ctrlcache.Informer
	heard chan toolscache.ResourceEventHandler
}

func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.heard != nil {
		i.heard <- handler
	}
	return nil, nil
}

func (*informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// The whole controller, from an event to the write, and to the end of what it shows.
func TestRun(t *testing.T) {
	s := newStage(t, Options{})
	// The stage's own client notes what is done, for one worker at a time.
	s.client = s.builder(crew("ww")...).Build()
	cache := &watchedClient{client: s.client, heard: make(chan toolscache.ResourceEventHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		options := Options{Leases: &nodelease.Leases{Client: s.client, Holder: holder, Clock: s.clock}}
		ended <- Run(ctx, cache, s.client, record.NewFakeRecorder(100), s.metrics, options)
	}()
	(<-cache.heard).OnAdd(checkOf("c"), true)
	for deadline := time.Now().Add(10 * time.Second); s.status("c").ExpectedMachines == nil && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	s.expect("c", "2 2 2", rested)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.metric(coveredDoc.Name, "c", namespace) != -1 {
		t.Error("series are left when it has ended")
	}
	cache.refuse = errors.New("no such kind")
	if err := Run(t.Context(), cache, s.client, record.NewFakeRecorder(100), s.metrics, Options{}); !errors.Is(err, cache.refuse) {
		t.Errorf("without its informers it ends with %v", err)
	}
}

func TestDefaults(t *testing.T) {
	r := NewReconciler(&cache{}, nil, nil, nil, Options{})
	if r.options.MaxInFlight != 1 || r.options.Live != r.reader || r.clock == nil || r.clock.Since(r.began) > time.Minute {
		t.Errorf("%+v", r.options)
	}
}
