package expectations

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
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
	// fewTrusted is how many objects are listed sooner than a watch sends a bookmark, which takes a second; fewObjects is the same for kinds that
	// tenants create, which may be large.
	fewTrusted, fewObjects = 5000, 500
	// minBackoff and maxBackoff bound the delay after a list that failed.
	minBackoff, maxBackoff = time.Second, 30 * time.Second
)

// LeaderBarrier delays the workers of a new leader until its caches show everything that was written before it took over. The expectations of the
// previous leader are lost with its process, and the first list of an informer may come from a watch cache that lags, which the API allows
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list).
type LeaderBarrier struct {
	// Cache holds the informers.
	Cache ctrlcache.Informers
	// Live lists from the API server, with resourceVersion unset: its most recent state.
	Live *Live
	// Watch watches the API server. Without it all objects are compared.
	Watch func(ctx context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error)
	// Scopes are the selectors of the informers by kind. The informer of a kind without an entry has all objects.
	Scopes map[client.Object]ctrlcache.ByObject
	// Few is how many objects of a kind, after the first page, are listed and not watched for changes; zero is 5,000 of Nodes and Machines, and 500
	// of other kinds.
	Few int64

	// listing is locked while a kind is listed, one at a time: an answer can be large.
	listing sync.Mutex

	mu sync.Mutex
	// current are the stores that have been compared, are being compared, or are to be compared with a version that has been read, by kind.
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

// comparison is the state of one store. A store that has caught up stays so until Reset.
type comparison struct {
	// store is nil until Wait is called.
	store cache.Store
	// busy is full while one caller compares; the others wait for it. reading is the same for the version.
	busy, reading chan struct{}
	// version is what ReadVersions has read; empty if it has not. The LeaderBarrier's mutex guards it.
	version string
	done    bool
}

// enter returns when no other caller is in, or the context ends. The caller leaves with a receive.
func enter(ctx context.Context, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wait returns when the informer of each kind shows every object that the API server has now, or had when ReadVersions read the version of the kind,
// at that version or a later one, and no older object that the API server did not have. It lists the first objects of a kind, for the version that
// the informer has to reach. Where there are few, it lists all of them and compares them with the informer. Where there are many, it watches what has
// changed since the version that the informer has reached, and lists all of them only if the watch does not show that. It begins again after each
// five seconds that a cache lags, and repeats a list that fails with backoff. An informer is compared once until Reset, however many capabilities ask
// for its kind. Wait fails only when the context ends, or the store of an informer cannot be read.
func (b *LeaderBarrier) Wait(ctx context.Context, kinds ...client.Object) error {
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

// ReadVersions reads which version the informers of some kinds have to reach, for the next Wait. A leader that calls it before its informers list
// need not wait for long: what they list after that is as new. A version that cannot be read within five seconds is left to Wait.
func (b *LeaderBarrier) ReadVersions(ctx context.Context, kinds ...client.Object) {
	ctx, cancel := context.WithTimeout(ctx, relistInterval)
	defer cancel()
	var group sync.WaitGroup
	for _, kind := range kinds {
		group.Go(func() { b.readVersion(ctx, kind) })
	}
	group.Wait()
}

func (b *LeaderBarrier) readVersion(ctx context.Context, kind client.Object) {
	// A Reset during the read drops the comparison, and the version with it.
	c := b.comparisonOf(kind, nil)
	if err := enter(ctx, c.reading); err != nil {
		return
	}
	defer func() { <-c.reading }()
	if b.versionOf(c) != "" {
		return
	}
	page, err := b.Live.page(ctx, kind, minPage, "", b.scope(kind)...)
	if err != nil {
		log.FromContext(ctx).V(1).Info("reading the version that the cache has to reach", "kind", fmt.Sprintf("%T", kind), "error", err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.version = page.ResourceVersion
}

func (b *LeaderBarrier) versionOf(c *comparison) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.version
}

// Reset drops what is known of all stores: who waits from now on waits for what is written until now. Comparisons that are under way go on for
// those who wait for them.
func (b *LeaderBarrier) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = nil
}

// once compares a store unless that has been done.
func (b *LeaderBarrier) once(ctx context.Context, kind client.Object, store cache.Store) error {
	c := b.comparisonOf(kind, store)
	if err := enter(ctx, c.busy); err != nil {
		return err
	}
	defer func() { <-c.busy }()
	if c.done {
		return nil
	}
	if err := b.catchUp(ctx, kind, store, b.versionOf(c)); err != nil {
		return err
	}
	c.done = true
	return nil
}

// comparisonOf returns the comparison of a store, or of whichever store the informer of a kind has, if that is nil.
func (b *LeaderBarrier) comparisonOf(kind client.Object, store cache.Store) *comparison {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(kind)
	if known := b.current[key]; known != nil {
		if known.store == nil {
			known.store = store
		}
		if store == nil || known.store == store {
			return known
		}
	}
	if b.current == nil {
		b.current = map[kindKey]*comparison{}
	}
	b.current[key] = &comparison{store: store, busy: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
	return b.current[key]
}

// catchUp returns when a cache shows everything that was written until a version, or, if that is not known or not reached, until the call.
func (b *LeaderBarrier) catchUp(ctx context.Context, kind client.Object, store cache.Store, version string) error {
	if reached(store.LastStoreSyncResourceVersion(), version) {
		return nil
	}
	delays := wait.Backoff{Duration: minBackoff, Factor: 2, Cap: maxBackoff, Steps: 16}.DelayFunc()
	for ctx.Err() == nil {
		page, err := retry(ctx, delays, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
			return b.Live.page(ctx, kind, minPage, "", b.scope(kind)...)
		})
		if err != nil {
			return err
		}
		if remaining := page.RemainingItemCount; remaining != nil && *remaining <= b.few(kind) {
			return b.compare(ctx, kind, store, delays)
		}
		missing, err := b.changes(ctx, kind, store, page)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Info("comparing the cache with a list of all objects", "kind", fmt.Sprintf("%T", kind), "reason", err.Error())
			return b.compare(ctx, kind, store, delays)
		}
		if ctx.Err() == nil && poll(ctx, kind, missing) {
			return nil
		}
	}
	return ctx.Err()
}

// few returns how many objects of a kind, after the first page, are listed and not watched for changes.
func (b *LeaderBarrier) few(kind client.Object) int64 {
	if largestPage(kind, b.scope(kind)) == maxTrustedPage {
		return cmp.Or(b.Few, fewTrusted)
	}
	return cmp.Or(b.Few, fewObjects)
}

// retry lists until that succeeds.
func retry[T any](ctx context.Context, delays wait.DelayFunc, list func(ctx context.Context) (T, error)) (listed T, err error) {
	err = delays.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		var err error
		if listed, err = list(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "listing what the cache has to show before the workers start; trying again")
		}
		return err == nil, nil
	})
	return listed, err
}

// poll reports whether nothing is missing in a cache any more before it has to be compared anew.
func poll(ctx context.Context, kind client.Object, missing func() string) bool {
	var first string
	err := wait.PollUntilContextTimeout(ctx, compareInterval, relistInterval, true, func(context.Context) (bool, error) {
		first = missing()
		return first == "", nil
	})
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Info("waiting for the cache to catch up with the API server", "kind", fmt.Sprintf("%T", kind), "first", first)
	}
	return err == nil
}

// scope returns the list options of the informer of a kind.
func (b *LeaderBarrier) scope(kind client.Object) (options []client.ListOption) {
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
