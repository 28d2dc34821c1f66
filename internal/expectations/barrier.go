package expectations

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// compareInterval is how often a cache is compared with a list of the API server.
	compareInterval = 20 * time.Millisecond
	// relistInterval is how long a cache is compared with one list. The next list does not have the objects that were deleted meanwhile; a cache that
	// never had them gets no event for that.
	relistInterval = 5 * time.Second
	// minBackoff and maxBackoff bound the delay after a list that failed.
	minBackoff, maxBackoff = time.Second, 30 * time.Second
)

// Barrier delays the workers of a new leader until its caches show everything that was written before it took over. The expectations of the previous
// leader are lost with its process, and the first list of an informer may come from a watch cache that lags, which the API allows
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
type Barrier struct {
	// Cache holds the informers.
	Cache ctrlcache.Informers
	// Live lists from the API server, with resourceVersion unset: its most recent state.
	Live *Live
	// Scopes are the selectors of the informers by kind. The informer of a kind without an entry has all objects.
	Scopes map[client.Object]ctrlcache.ByObject

	// listing is locked while a kind is listed, one at a time: an answer can be large.
	listing sync.Mutex

	mu sync.Mutex
	// current are the stores that have been compared, or are being compared, by kind.
	current map[kindKey]*comparison
}

// kindKey identifies the informer of a kind.
type kindKey struct {
	of  reflect.Type
	gvk schema.GroupVersionKind
}

func keyOf(kind client.Object) kindKey {
	return kindKey{reflect.TypeOf(kind), kind.GetObjectKind().GroupVersionKind()}
}

// comparison is that of one store. A store that has caught up stays so until Reset.
type comparison struct {
	store cache.Store
	// busy is full while one caller compares; the others wait for it.
	busy chan struct{}
	done bool
}

// Wait returns when the informer of each kind shows every object that the API server has now, at that version or a later one, and no older object
// that the API server does not have. It lists the metadata of each kind once, and again for each five seconds that a cache lags; a list that
// fails is repeated with backoff. An informer is compared once until Reset, however many capabilities ask for its kind. It fails only when the
// context ends, or the store of an informer cannot be read.
func (b *Barrier) Wait(ctx context.Context, kinds ...client.Object) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, kind := range kinds {
		store, err := storeOf(ctx, b.Cache, kind)
		if err != nil {
			return err
		}
		if store == nil {
			return fmt.Errorf("comparing the cache of %T with the API server: its informer has no store", kind)
		}
		group.Go(func() error { return b.once(ctx, kind, store) })
	}
	return group.Wait()
}

// Reset drops what is known of all stores: who waits from now on waits for what is written until now. Comparisons that are under way go on for
// those who wait for them.
func (b *Barrier) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = nil
}

// once compares a store unless that has been done.
func (b *Barrier) once(ctx context.Context, kind client.Object, store cache.Store) error {
	c := b.comparisonOf(kind, store)
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.busy }()
	if c.done {
		return nil
	}
	if err := b.catchUp(ctx, kind, store); err != nil {
		return err
	}
	c.done = true
	return nil
}

func (b *Barrier) comparisonOf(kind client.Object, store cache.Store) *comparison {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(kind)
	if known := b.current[key]; known != nil && known.store == store {
		return known
	}
	if b.current == nil {
		b.current = map[kindKey]*comparison{}
	}
	b.current[key] = &comparison{store: store, busy: make(chan struct{}, 1)}
	return b.current[key]
}

// catchUp lists a kind until its cache shows one of the lists.
func (b *Barrier) catchUp(ctx context.Context, kind client.Object, store cache.Store) error {
	delays := wait.Backoff{Duration: minBackoff, Factor: 2, Cap: maxBackoff, Steps: 16}.DelayFunc()
	for {
		var current *snapshot
		err := delays.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
			var err error
			if current, err = b.list(ctx, kind); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "listing what the cache has to show before the workers start; trying again")
			}
			return err == nil, nil
		})
		if err != nil {
			return err
		}
		var missing string
		err = wait.PollUntilContextTimeout(ctx, compareInterval, relistInterval, true, func(context.Context) (bool, error) {
			missing = current.missing(store)
			return missing == "", nil
		})
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		log.FromContext(ctx).Info("waiting for the cache to catch up with the API server", "kind", fmt.Sprintf("%T", kind), "first", missing)
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

func (b *Barrier) list(ctx context.Context, kind client.Object) (*snapshot, error) {
	b.listing.Lock()
	defer b.listing.Unlock()
	s := &snapshot{objects: map[types.NamespacedName]identity{}}
	var err error
	s.version, err = b.Live.list(ctx, kind, func(object *metav1.PartialObjectMetadata) {
		s.objects[client.ObjectKeyFromObject(object)] = identity{object.UID, object.ResourceVersion}
	}, b.scope(kind)...)
	return s, err
}

// scope returns the options with which the informer of a kind lists.
func (b *Barrier) scope(kind client.Object) (options []client.ListOption) {
	for object, by := range b.Scopes {
		if keyOf(object) != keyOf(kind) {
			continue
		}
		if by.Label != nil {
			options = append(options, client.MatchingLabelsSelector{Selector: by.Label})
		}
		if by.Field != nil {
			options = append(options, fieldScope(by.Field)...)
		}
	}
	return options
}

// fieldScope turns the field metadata.namespace into the namespace of the request, as informers do: a Role in that namespace permits no other.
func fieldScope(selector fields.Selector) []client.ListOption {
	if namespace, ok := selector.RequiresExactMatch("metadata.namespace"); ok {
		return []client.ListOption{client.InNamespace(namespace)}
	}
	return []client.ListOption{client.MatchingFieldsSelector{Selector: selector}}
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
