package stale

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Objects are the objects of some kinds at one moment.
type Objects map[schema.GroupVersionResource][]*unstructured.Unstructured

// version is an object as it was from some moment on.
type version struct {
	object  *unstructured.Unstructured
	number  uint64
	at      time.Time
	deleted bool
}

// History is how the objects of some kinds have changed, as the API server's own watches show it.
type History struct {
	client dynamic.Interface
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	versions map[schema.GroupVersionResource]map[types.UID][]version
	// own are the resourceVersions that the operator's writes made, removed the objects that it deleted.
	own     map[uint64]bool
	removed map[types.UID]bool
	failed  error
}

// Follow begins to record, until Stop.
func Follow(ctx context.Context, config *rest.Config, kinds ...schema.GroupVersionResource) (*History, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("stale: making a client: %w", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &History{
		client: client, stop: stop, versions: map[schema.GroupVersionResource]map[types.UID][]version{}, own: map[uint64]bool{},
		removed: map[types.UID]bool{},
	}
	for _, kind := range kinds {
		h.versions[kind] = map[types.UID][]version{}
	}
	for _, kind := range kinds {
		from, err := h.list(ctx, kind)
		if apierrors.IsNotFound(err) {
			continue // the kind is not served here
		}
		if err != nil {
			stop()
			return nil, err
		}
		h.done.Go(func() { h.follow(ctx, kind, from) })
	}
	return h, nil
}

// Stop ends the recording, and returns why it ended before, if it did.
func (h *History) Stop() error {
	h.stop()
	h.done.Wait()
	return h.failed
}

func (h *History) list(ctx context.Context, kind schema.GroupVersionResource) (string, error) {
	list, err := h.client.Resource(kind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("stale: listing %s: %w", kind.GroupResource(), err)
	}
	for i := range list.Items {
		h.add(kind, &list.Items[i], false)
	}
	return list.GetResourceVersion(), nil
}

// follow records one kind. A watch that the server ends goes on where it was.
func (h *History) follow(ctx context.Context, kind schema.GroupVersionResource, from string) {
	for ctx.Err() == nil {
		watcher, err := h.client.Resource(kind).Watch(ctx, metav1.ListOptions{ResourceVersion: from, AllowWatchBookmarks: true})
		if err == nil {
			from, err = h.read(kind, watcher, from)
		}
		if err != nil && ctx.Err() == nil {
			h.mu.Lock()
			h.failed = fmt.Errorf("stale: watching %s: %w", kind.GroupResource(), err)
			h.mu.Unlock()
			return
		}
	}
}

func (h *History) read(kind schema.GroupVersionResource, watcher watch.Interface, from string) (string, error) {
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Error || !ok {
			return from, fmt.Errorf("%v", event.Object)
		}
		from = object.GetResourceVersion()
		if event.Type != watch.Bookmark {
			h.add(kind, object, event.Type == watch.Deleted)
		}
	}
	return from, nil
}

func (h *History) add(kind schema.GroupVersionResource, object *unstructured.Unstructured, deleted bool) {
	if kind == leases && object.GetNamespace() == corev1.NamespaceNodeLease {
		return // heartbeats, which the operator does not watch
	}
	number, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		return // no server of ours has other versions
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.versions[kind]
	all[object.GetUID()] = append(all[object.GetUID()], version{object: object, number: number, at: time.Now(), deleted: deleted})
}

// wrote notes a version that a write of the operator made.
func (h *History) wrote(text string) {
	if number, err := strconv.ParseUint(text, 10, 64); err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.own[number] = true
	}
}

// deleted notes an object that the operator deleted.
func (h *History) deleted(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removed[uid] = true
}

// Now reads kinds as they are, from the API server.
func (h *History) Now(ctx context.Context, kinds ...schema.GroupVersionResource) (Objects, error) {
	objects := Objects{}
	for _, kind := range kinds {
		list, err := h.client.Resource(kind).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsNotFound(err): // the kind is not served here
			continue
		case err != nil:
			return nil, fmt.Errorf("stale: listing %s: %w", kind.GroupResource(), err)
		}
		for i := range list.Items {
			objects[kind] = append(objects[kind], &list.Items[i])
		}
	}
	return objects, nil
}

// Known is what an operator can know of kinds: what they were at a moment of each, and what it has written itself until another moment.
func (h *History) Known(at func(schema.GroupVersionResource) time.Time, own time.Time, kinds ...schema.GroupVersionResource) Objects {
	h.mu.Lock()
	defer h.mu.Unlock()
	objects := Objects{}
	for _, kind := range kinds {
		until := at(kind)
		for uid, versions := range h.versions[kind] {
			var last *version
			for i := range versions {
				v := &versions[i]
				if !v.at.After(until) || !v.at.After(own) && (h.own[v.number] || v.deleted && h.removed[uid]) {
					last = v
				}
			}
			if last != nil && !last.deleted {
				objects[kind] = append(objects[kind], last.object)
			}
		}
	}
	return objects
}

// moments are the beginning of a span and every moment in it at which an object of some kinds changed.
func (h *History) moments(from, to time.Time, kinds ...schema.GroupVersionResource) []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := []time.Time{from}
	for _, kind := range kinds {
		for _, versions := range h.versions[kind] {
			for i := range versions {
				if at := versions[i].at; at.After(from) && !at.After(to) {
					all = append(all, at)
				}
			}
		}
	}
	return all
}

// first is when a kind first changed since a moment, if it did.
func (h *History) first(kind schema.GroupResource, since time.Time) (first time.Time, changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, objects := range h.versions {
		if key.GroupResource() != kind {
			continue
		}
		for _, versions := range objects {
			for i := range versions {
				if at := versions[i].at; at.After(since) && (!changed || at.Before(first)) {
					first, changed = at, true
				}
			}
		}
	}
	return first, changed
}

// Changes lists the resourceVersions of the changes of a kind since a moment, in their order.
func (h *History) Changes(kind schema.GroupResource, since time.Time) []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var numbers []uint64
	for key, objects := range h.versions {
		if key.GroupResource() != kind {
			continue
		}
		for _, versions := range objects {
			for i := range versions {
				if versions[i].at.After(since) {
					numbers = append(numbers, versions[i].number)
				}
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}
