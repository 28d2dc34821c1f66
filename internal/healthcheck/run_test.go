package healthcheck

import (
	"context"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/client-go/tools/record"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"
)

// watchedClient is a cache that reads from a client in memory and has informers whose events the test makes.
type watchedClient struct {
	*informertest.FakeInformers
	client client.Client
}

func (w *watchedClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return w.client.Get(ctx, key, object, options...)
}

func (w *watchedClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return w.client.List(ctx, list, options...)
}

var _ ctrlcache.Cache = (*watchedClient)(nil)

// The whole controller, from an event to the write, and to the end of what it shows.
func TestRun(t *testing.T) {
	s := newStage(t, Options{}, crew("ww")...)
	cache := &watchedClient{FakeInformers: &informertest.FakeInformers{Scheme: newScheme(t)}, client: s.client}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		options := Options{Leases: &nodelease.Leases{Client: s.client, Holder: holder, Clock: s.clock}}
		ended <- Run(ctx, cache, s.client, record.NewFakeRecorder(100), s.metrics, options)
	}()
	informer, err := cache.FakeInformerFor(t.Context(), &machinev1beta1.MachineHealthCheck{})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		// The source may not have begun to listen yet.
		informer.Add(checkOf("c"))
		if s.status("c").ExpectedMachines != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.expect("c", "2 2 2", rested)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.metric(coveredDoc.Name, "c", namespace) != -1 {
		t.Error("series are left when it has ended")
	}
}

func TestDefaults(t *testing.T) {
	r := NewReconciler(&cache{}, nil, nil, nil, Options{})
	if r.options.MaxInFlight != 1 || r.options.Live != r.reader || r.clock == nil || r.clock.Since(r.began) > time.Minute {
		t.Errorf("%+v", r.options)
	}
}
