package harness

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watchOf is how a RetryWatcher watches a kind.
type watchOf struct {
	client.WithWatch

	kind    client.ObjectList
	options []client.ListOption
}

// WatchWithContext implements cache.WatcherWithContext.
func (w watchOf) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	list, _ := w.kind.DeepCopyObject().(client.ObjectList)
	return w.Watch(ctx, list, append([]client.ListOption{&client.ListOptions{Raw: &options}}, w.options...)...)
}

// revisionOf returns the revision of the object, or of a list. No server of ours has versions that are not numbers.
func revisionOf(object interface{ GetResourceVersion() string }) uint64 {
	revision, _ := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	return revision
}

// follow calls a function with the objects of a kind, and with their later versions until the test ends. It returns the revision of the first LIST;
// it misses no later version. For a kind that is not served it returns zero.
func (w *World) follow(list client.ObjectList, see func(object client.Object, gone bool), options ...client.ListOption) uint64 {
	w.Helper()
	watcher, err := client.NewWithWatch(w.Cluster.Admin(), client.Options{Scheme: w.Client.Scheme()})
	if err != nil {
		w.Fatal(err)
	}
	err = watcher.List(w.Context(), list, options...)
	switch {
	case meta.IsNoMatchError(err):
		return 0 // without the Machine API there are no Machines
	case err != nil:
		w.Fatal(err)
	}
	observe := func(seen runtime.Object, gone bool) {
		if object, ok := seen.(client.Object); ok {
			see(object, gone)
		}
	}
	if err := meta.EachListItem(list, func(object runtime.Object) error {
		observe(object, false)
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watchOf{watcher, list, options})
	if err != nil {
		cancel()
		w.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			observe(event.Object, event.Type == watch.Deleted)
		}
	}()
	w.Cleanup(func() {
		cancel()
		<-done
	})
	return revisionOf(list)
}
