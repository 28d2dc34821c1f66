package expectations

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// watchSeconds is how long the API server watches for changes. Two seconds before it ends the watch it sends a bookmark: the version until which
	// the watch has sent everything (nextBookmarkTime in
	// https://github.com/kubernetes/apiserver/blob/v0.37.1/pkg/storage/cacher/cache_watcher.go). It sends none for the version of a change that is
	// outside the scope of the watch, until something else is written.
	watchSeconds = 3
	// watchTimeout is how long the watch may take, with the connection.
	watchTimeout = 5 * time.Second
)

// changes returns a function that names something that a store lacks of what was written before the first page of a kind was listed. It fails when
// neither the page nor a watch from the version of the store on shows all of that. A store has all changes of its kind until the version that it has
// reached.
func (b *LeaderBarrier) changes(
	ctx context.Context, kind client.Object, store cache.Store, page *metav1.PartialObjectMetadataList,
) (missing func() string, err error) {
	if page.Continue == "" {
		all := snapshotOf(page)
		return func() string { return all.missing(store) }, nil
	}
	required := store.LastStoreSyncResourceVersion()
	if !reached(required, page.ResourceVersion) {
		if required, err = b.lastChange(ctx, kind, required, page.ResourceVersion); err != nil {
			return nil, err
		}
	}
	return func() string {
		if reached(store.LastStoreSyncResourceVersion(), required) {
			return ""
		}
		return "version " + required
	}, nil
}

// lastChange returns the version of the last change of a kind after one version and until another one; the former if there is none.
func (b *LeaderBarrier) lastChange(ctx context.Context, kind client.Object, from, until string) (string, error) {
	if !Older(from, until) {
		return "", fmt.Errorf("the cache is at version %q, the API server at %q, and they cannot be compared", from, until)
	}
	if b.Watch == nil {
		return "", errors.New("there is no watch")
	}
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	list, err := b.Live.emptyList(kind)
	if err != nil {
		return "", err
	}
	watcher, err := b.Watch(ctx, list, append(b.scope(kind), &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(watchSeconds)),
	}})...)
	if err != nil {
		return "", fmt.Errorf("watching %s: %w", list.Kind, err)
	}
	defer watcher.Stop()
	last, err := lastOf(ctx, watcher.ResultChan(), from, until)
	if err != nil {
		return "", fmt.Errorf("watching %s: %w", list.Kind, err)
	}
	return last, nil
}

// lastOf returns the version of the last change that a watch shows until it has shown all until a version.
func lastOf(ctx context.Context, events <-chan watch.Event, from, until string) (string, error) {
	last := from
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case event, open := <-events:
			if !open {
				return "", fmt.Errorf("the watch ended before it showed what was written until version %s", until)
			}
			version, err := versionOf(event)
			if err != nil {
				return "", err
			}
			if !reached(version, last) {
				return "", fmt.Errorf("version %q follows %q", version, last)
			}
			if event.Type != watch.Bookmark {
				last = version
			}
			if reached(version, until) {
				return last, nil
			}
		}
	}
}

// versionOf returns the version of a change, or of a bookmark.
func versionOf(event watch.Event) (string, error) {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return "", fmt.Errorf("reading the version of a %T: %w", event.Object, err)
		}
		return object.GetResourceVersion(), nil
	case watch.Error:
		return "", apierrors.FromObject(event.Object)
	}
	return "", fmt.Errorf("an event of type %q", event.Type)
}
