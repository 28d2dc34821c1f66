package machineset

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// heard is a cache that reads from an API server in memory, and hands the test what the controller hears MachineSets with.
type heard struct {
	ctrlcache.Cache
	client.Reader
	handlers chan toolscache.ResourceEventHandler
	// refuses answers when it is asked for a kind.
	refuses error
	kind    string
}

func (h *heard) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return h.Reader.Get(ctx, key, object, options...)
}

func (h *heard) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return h.Reader.List(ctx, list, options...)
}

func (h *heard) GetInformer(_ context.Context, object client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	if fmt.Sprintf("%T", object) == h.kind {
		return nil, h.refuses
	}
	if _, sets := object.(*machinev1beta1.MachineSet); sets {
		return &informer{handlers: h.handlers}, nil
	}
	return &informer{}, nil
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

// The whole controller, from an event to what it writes, and to the end of what it shows.
func TestRun(t *testing.T) {
	s := newFixture(t, Options{}, setOf(3))
	cache := &heard{Reader: s.client, handlers: make(chan toolscache.ResourceEventHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- Run(ctx, cache, s.client, s.client, s.events, s.metrics, Options{}) }()
	(<-cache.handlers).OnAdd(setOf(3), true)
	replicas := func() float64 { return s.metric("mapi_machine_set_status_replicas", "web", "machines") }
	for deadline := time.Now().Add(30 * time.Second); replicas() != 3 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	s.expect(3, 0, 0, "Resized=True Resized")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.metric("mapi_machine_set_status_replicas", "web", "machines") != -1 || s.metric("mapi_machineset_items") != 0 {
		t.Error("series are left when it has ended")
	}
	for _, kind := range []string{"*v1beta1.Machine", "*v1.Node"} {
		broken := &heard{Reader: s.client, refuses: errors.New("no such kind"), kind: kind, handlers: make(chan toolscache.ResourceEventHandler, 1)}
		if err := Run(t.Context(), broken, s.client, s.client, s.events, s.metrics, Options{}); !errors.Is(err, broken.refuses) {
			t.Errorf("without its informers it ends with %v", err)
		}
	}
}
