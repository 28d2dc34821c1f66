package expectations

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Owned knows whether the cache of one kind shows everything that Drover itself has written to objects of that kind. Objects does so
// for an object that is there; Owned also for objects that have been created or deleted. Who decides by counting would otherwise
// create again what the cache does not show yet, and delete in place of what it still shows.
//
// What is awaited is kept by owner: who has written for one of them need not wait for the others.
type Owned struct {
	reader  client.Reader
	kind    func() client.Object
	version func() string

	mu      sync.Mutex
	awaited map[string]map[types.NamespacedName]awaited
}

// awaited is one write that the cache may not show yet.
type awaited struct {
	verb    verb
	uid     types.UID
	version string
}

type verb int

const (
	created verb = iota
	changed
	deleted
)

// NewOwned makes an empty memory for the cache that a reader reads. Kind makes an empty object of the kind. Version tells the newest
// resourceVersion that this cache has seen, and is empty when it cannot tell; nil never can. Then each object is looked for.
func NewOwned(reader client.Reader, kind func() client.Object, version func() string) *Owned {
	if version == nil {
		version = func() string { return "" }
	}
	return &Owned{reader: reader, kind: kind, version: version, awaited: map[string]map[types.NamespacedName]awaited{}}
}

// StoreVersion makes a function that tells the newest resourceVersion that the cache of a kind has seen; empty where it cannot tell.
func StoreVersion(ctx context.Context, informers ctrlcache.Informers, kind client.Object) (func() string, error) {
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("finding the informer of %T: %w", kind, err)
	}
	var store cache.Store
	if stored, ok := informer.(interface{ GetStore() cache.Store }); ok {
		store = stored.GetStore()
	}
	if store == nil {
		return func() string { return "" }, nil
	}
	return store.LastStoreSyncResourceVersion, nil
}

// Created notes an object as the API server answered to its creation.
func (f *Owned) Created(owner string, object client.Object) { f.note(owner, object, created) }

// Changed notes an object of the cache as the API server answered to a change of it.
func (f *Owned) Updated(owner string, object client.Object) { f.note(owner, object, changed) }

// Deleted notes an object of the cache whose deletion the API server has accepted. It may stay, with a deletion timestamp.
func (f *Owned) Deleted(owner string, object client.Object) { f.note(owner, object, deleted) }

func (f *Owned) note(owner string, object client.Object, did verb) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awaited[owner] == nil {
		f.awaited[owner] = map[types.NamespacedName]awaited{}
	}
	f.awaited[owner][client.ObjectKeyFromObject(object)] = awaited{verb: did, uid: object.GetUID(), version: object.GetResourceVersion()}
}

// Behind tells whether the cache has yet to show a write that was made for an owner.
func (f *Owned) Pending(ctx context.Context, owner string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	reached := f.version()
	for key, write := range f.awaited[owner] {
		shown, err := f.shown(ctx, key, write, reached)
		if err != nil {
			return true, fmt.Errorf("looking for %s in the cache: %w", key, err)
		}
		if !shown {
			return true, nil
		}
		delete(f.awaited[owner], key)
	}
	delete(f.awaited, owner)
	return false, nil
}

// Forget drops what is awaited for an owner.
func (f *Owned) Forget(owner string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.awaited, owner)
}

// Len is for how many owners something is awaited.
func (f *Owned) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.awaited)
}

func (f *Owned) shown(ctx context.Context, key types.NamespacedName, write awaited, reached string) (bool, error) {
	if write.verb != deleted {
		// A cache that is as new as the write has shown it, even when the object has come and gone meanwhile. The answer to a deletion
		// tells no version: that one is always looked for, and what the cache has shown once it does not lose but by a deletion.
		if order, err := resourceversion.CompareResourceVersion(reached, write.version); err == nil {
			return order >= 0, nil
		}
	}
	object := f.kind()
	switch err := f.reader.Get(ctx, key, object); {
	case apierrors.IsNotFound(err):
		return write.verb != created, nil
	case err != nil:
		return false, err
	case write.verb == deleted:
		return object.GetUID() != write.uid || object.GetDeletionTimestamp() != nil, nil
	}
	// Under another UID it is one that came after ours, or one that ours has replaced and the cache has not heard of it: the versions tell.
	return !older(object.GetResourceVersion(), write.version), nil
}

// older tells whether a version comes before another; of what cannot be compared it does not.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
