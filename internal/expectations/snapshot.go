package expectations

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// compare lists a kind until its cache shows one of the lists.
func (b *LeaderBarrier) compare(ctx context.Context, kind client.Object, store cache.Store, delays wait.DelayFunc) error {
	for {
		current, err := retry(ctx, delays, func(ctx context.Context) (*snapshot, error) { return b.list(ctx, kind) })
		if err != nil {
			return err
		}
		if poll(ctx, kind, func() string { return current.missing(store) }) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// snapshot has the objects of a kind that existed at one resourceVersion.
type snapshot struct {
	version string
	objects map[types.NamespacedName]identity
}

type identity struct {
	uid     types.UID
	version string
}

func (b *LeaderBarrier) list(ctx context.Context, kind client.Object) (*snapshot, error) {
	b.listing.Lock()
	defer b.listing.Unlock()
	s := &snapshot{objects: map[types.NamespacedName]identity{}}
	var err error
	s.version, err = b.Live.list(ctx, kind, s.add, b.scope(kind)...)
	return s, err
}

// snapshotOf returns the snapshot of a list that has all objects.
func snapshotOf(list *metav1.PartialObjectMetadataList) *snapshot {
	s := &snapshot{version: list.ResourceVersion, objects: map[types.NamespacedName]identity{}}
	for i := range list.Items {
		s.add(&list.Items[i])
	}
	return s
}

func (s *snapshot) add(object *metav1.PartialObjectMetadata) {
	s.objects[client.ObjectKeyFromObject(object)] = identity{object.UID, object.ResourceVersion}
}

// missing returns the key of an object that a cache shows in an older state than the snapshot; empty when the cache has caught up.
func (s *snapshot) missing(store cache.Store) string {
	if reached(store.LastStoreSyncResourceVersion(), s.version) {
		return ""
	}
	for key, listed := range s.objects {
		item, exists, err := store.GetByKey(storeKey(key))
		if err != nil || !exists || !listed.shownBy(item) {
			return storeKey(key)
		}
	}
	for _, item := range store.List() {
		object, err := meta.Accessor(item)
		if err != nil {
			return err.Error()
		}
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		if _, listed := s.objects[key]; !listed && !reached(object.GetResourceVersion(), s.version) {
			return storeKey(key)
		}
	}
	return ""
}

// shownBy reports whether an object of the cache is the listed one or a later version.
func (i identity) shownBy(item any) bool {
	object, err := meta.Accessor(item)
	if err != nil {
		return false
	}
	version := object.GetResourceVersion()
	return version == i.version && object.GetUID() == i.uid || reached(version, i.version)
}

// storeKey returns the key of an object in the store of an informer.
func storeKey(key types.NamespacedName) string {
	return cache.NewObjectName(key.Namespace, key.Name).String()
}
