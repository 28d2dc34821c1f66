package e2e

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/expectations"
)

// requests counts the lists and watches of a barrier.
type requests struct {
	client.WithWatch
	lists, watches atomic.Int32
}

func (r *requests) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.lists.Add(1)
	return r.WithWatch.List(ctx, list, options...)
}

func (r *requests) Watch(ctx context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	r.watches.Add(1)
	return r.WithWatch.Watch(ctx, list, options...)
}

// configMaps creates ConfigMaps in a namespace of their own. It returns the namespace, and what they are.
func configMaps(t *testing.T, api client.Client, count int) (string, func(i int) *corev1.ConfigMap) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "barrier-"}}
	if err := api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(t.Context()), namespace) })
	object := func(i int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: fmt.Sprintf("object-%d", i)}}
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range count {
		group.Go(func() error { return api.Create(t.Context(), object(i)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return namespace.Name, object
}

// TestBarrier_ManyObjects: the caches of a new leader catch up with a real API server without a list of all objects, and without a watch where they
// filled after it became the leader.
func TestBarrier_ManyObjects(t *testing.T) {
	api, err := client.NewWithWatch(env.Admin(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const count = 600
	namespace, object := configMaps(t, api, count)
	scopes := map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Field: fields.OneTermEqualSelector("metadata.namespace", namespace)},
	}
	caches, err := cache.New(env.Admin(), cache.Options{ByObject: scopes})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = caches.Start(t.Context()) }()
	counted := &requests{WithWatch: api}
	barrier := &expectations.LeaderBarrier{
		Cache: caches, Live: expectations.NewLive(counted, scheme.Scheme), Watch: counted.Watch, Scopes: scopes, Few: 1,
	}
	wait := func() (lists, watches int32) {
		t.Helper()
		if err := barrier.Wait(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
		return counted.lists.Swap(0), counted.watches.Swap(0)
	}
	barrier.ReadVersions(t.Context(), &corev1.ConfigMap{})
	if lists, watches := wait(); lists != 1 || watches != 0 {
		t.Errorf("caches that fill after the version was read: %d lists, %d watches", lists, watches)
	}
	for i := range 3 {
		changed := object(i)
		changed.Data = map[string]string{"changed": "yes"}
		if err := api.Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
		if err := api.Delete(t.Context(), object(count-1-i)); err != nil {
			t.Fatal(err)
		}
	}
	// A bookmark may be late on a busy machine.
	for attempt := 1; ; attempt++ {
		// What is written last is another kind: the API server sends no bookmark for its version to the caches for a minute.
		last := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "last-"}}
		if err := api.Create(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		barrier.Reset()
		lists, watches := wait()
		if lists == 1 && watches == 1 {
			break
		}
		if attempt == 3 {
			t.Fatalf("caches that are full: %d lists, %d watches", lists, watches)
		}
	}
	var cached corev1.ConfigMapList
	if err := caches.List(t.Context(), &cached); err != nil {
		t.Fatal(err)
	}
	changed := 0
	for i := range cached.Items {
		changed += len(cached.Items[i].Data)
	}
	// The namespace's certificates are in one more ConfigMap, if a controller creates it.
	if changed < 3 || len(cached.Items) < count-3 || len(cached.Items) > count-2 {
		t.Errorf("the cache shows %d ConfigMaps, %d of them changed", len(cached.Items), changed)
	}
}
