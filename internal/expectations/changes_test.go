package expectations

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bookmarkDelay is when the API server sends a bookmark in a watch of watchSeconds.
const bookmarkDelay = time.Second

// change is what a watch shows after a delay.
type change struct {
	after time.Duration
	watch.Event
}

func changed(kind watch.EventType, name, version string) change {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	return change{Event: watch.Event{Type: kind, Object: object}}
}

func bookmark(version string) change {
	c := changed(watch.Bookmark, "", version)
	c.after = bookmarkDelay
	return c
}

// many are more objects than a page has.
var many = []item{{"a", "1", "10"}, {"b", "2", "20"}}

// watched is a server that also watches. It ends a watch that does not end itself.
type watched struct {
	mu sync.Mutex
	server
	changes []change
	refuses error
	// hangs says that a watch never ends.
	hangs bool
	// watches are the options of all watches.
	watches []client.ListOptions
}

func (w *watched) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.server.List(ctx, into, options...)
}

func (w *watched) watch(_ context.Context, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	if _, ok := list.(*metav1.PartialObjectMetadataList); !ok {
		return nil, errors.New("the watch is not of metadata alone")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches = append(w.watches, *(&client.ListOptions{}).ApplyOptions(options))
	if w.refuses != nil {
		return nil, w.refuses
	}
	watcher := watch.NewRaceFreeFake()
	changes, hangs := w.changes, w.hangs
	go func() {
		for _, c := range changes {
			time.Sleep(c.after)
			watcher.Action(c.Type, c.Object)
		}
		if !hangs {
			time.Sleep(watchSeconds * time.Second)
			watcher.Stop()
		}
	}()
	return watcher, nil
}

// barrier returns a barrier with a cache that has reached a version.
func (w *watched) barrier(t *testing.T, version string) (*LeaderBarrier, cache.Store) {
	t.Helper()
	store := storeWith(t)
	if version != "" {
		store.Bookmark(version)
	}
	return &LeaderBarrier{Cache: &storedInformer{informer: &stored{store: store}}, Live: NewLive(w, scheme.Scheme), Watch: w.watch}, store
}

func (w *watched) expect(t *testing.T, lists, watches int) {
	t.Helper()
	if len(w.watches) != watches || w.lists != lists {
		t.Errorf("%d lists, %d watches; want %d, %d", w.lists, len(w.watches), lists, watches)
	}
}

// Workers of a kind that has not changed, or whose changes the cache shows, start with the bookmark of a watch, and without a list.
func TestLeaderBarrier_Watch(t *testing.T) {
	for _, c := range []struct {
		name    string
		cached  string
		changes []change
		watches int
		took    time.Duration
	}{
		{"the cache is at the version", "30", nil, 0, 0},
		{"the cache is newer", "35", nil, 0, 0},
		{"a version with fewer digits is older", "9", []change{bookmark("30")}, 1, bookmarkDelay},
		{"nothing has changed", "20", []change{bookmark("30")}, 1, bookmarkDelay},
		{"the bookmark is newer", "20", []change{bookmark("33")}, 1, bookmarkDelay},
		{"an early bookmark is not enough", "20", []change{bookmark("25"), bookmark("30")}, 1, 2 * bookmarkDelay},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{server: server{version: "30", items: many}, changes: c.changes}
				b, _ := w.barrier(t, c.cached)
				started := time.Now()
				if err := b.Wait(t.Context(), node("")); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(started); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				w.expect(t, 1, c.watches)
				time.Sleep(time.Minute)
			})
		})
	}
}

// The workers wait for the last change until the version, of whatever kind it is.
func TestLeaderBarrier_WaitsForChanges(t *testing.T) {
	update := func(name, v string) func(cache.Store) error {
		return func(store cache.Store) error {
			n := version("1", v)
			n.Name = name
			return store.Update(n)
		}
	}
	remove := func(name, v string) func(cache.Store) error {
		return func(store cache.Store) error {
			n := version("1", v)
			n.Name = name
			return store.Delete(n)
		}
	}
	for _, c := range []struct {
		name    string
		changes []change
		// early is what the cache shows first, late what it has to show.
		early, late func(cache.Store) error
	}{
		{"created", []change{changed(watch.Added, "a", "25"), bookmark("30")}, update("b", "24"), update("a", "25")},
		{"changed", []change{changed(watch.Modified, "a", "24"), changed(watch.Modified, "a", "25"), bookmark("30")}, update("a", "24"), update("a", "25")},
		{"deleted", []change{changed(watch.Deleted, "a", "25"), bookmark("30")}, update("b", "24"), remove("a", "25")},
		{
			"created, and deleted before the cache shows it", []change{changed(watch.Added, "a", "25"), bookmark("30")}, update("b", "24"),
			remove("a", "41"),
		},
		{"a change of the version itself", []change{changed(watch.Modified, "a", "30")}, update("b", "29"), update("a", "30")},
		{"a later change", []change{changed(watch.Modified, "a", "25"), changed(watch.Modified, "a", "31")}, update("a", "25"), update("a", "31")},
		{
			"the cache is filled anew", []change{changed(watch.Deleted, "a", "25"), bookmark("30")}, update("b", "24"),
			func(store cache.Store) error { return store.Replace(nil, "32") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{server: server{version: "30", items: many}, changes: c.changes}
				b, store := w.barrier(t, "20")
				done := make(chan error, 1)
				go func() { done <- b.Wait(t.Context(), node("")) }()
				for _, show := range []func(cache.Store) error{c.early, c.late} {
					time.Sleep(2 * time.Second)
					synctest.Wait()
					if len(done) != 0 {
						t.Fatal("the workers start while the cache lags")
					}
					if err := show(store); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(compareInterval)
				synctest.Wait()
				if len(done) != 1 || <-done != nil {
					t.Error("the workers do not start")
				}
				w.expect(t, 1, 1)
				time.Sleep(time.Minute)
			})
		})
	}
}

// A cache that lags for long is compared anew: with the version that the API server has then.
func TestLeaderBarrier_LagsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{server: server{version: "30", items: many}, changes: []change{changed(watch.Added, "a", "25"), bookmark("30")}}
		w.onList = func() {
			if w.lists == 2 {
				w.version, w.changes = "40", []change{changed(watch.Added, "a", "25"), changed(watch.Deleted, "a", "26"), bookmark("40")}
			}
		}
		b, store := w.barrier(t, "20")
		done := make(chan error, 1)
		go func() { done <- b.Wait(t.Context(), node("")) }()
		time.Sleep(bookmarkDelay + relistInterval + bookmarkDelay + time.Second)
		store.Bookmark("25")
		time.Sleep(time.Second)
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("the workers start while the cache lags")
		}
		store.Bookmark("26")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.expect(t, 2, 2)
		for at, from := range []string{"20", "20"} {
			if got := w.watches[at].Raw.ResourceVersion; got != from {
				t.Errorf("watch %d is from %q, want %q", at, got, from)
			}
		}
		time.Sleep(time.Minute)
	})
}

// What a watch does not show is compared object by object.
func TestLeaderBarrier_Fallback(t *testing.T) {
	status := func(err *apierrors.StatusError) change {
		return change{Event: watch.Event{Type: watch.Error, Object: &err.ErrStatus}}
	}
	gone := apierrors.NewResourceExpired("too old resource version")
	for _, c := range []struct {
		name   string
		cached string
		change func(*watched)
		// watches is how often it watches, within which time it falls back.
		watches int
		within  time.Duration
	}{
		{"the version of the cache is unknown", "", func(*watched) {}, 0, 0},
		{"the versions cannot be compared", "20", func(w *watched) { w.version = "abc" }, 0, 0},
		{"the watch is forbidden", "20", func(w *watched) { w.refuses = apierrors.NewForbidden(corev1.Resource("nodes"), "", nil) }, 1, 0},
		{"the version of the cache is too old for a watch", "20", func(w *watched) { w.refuses = gone }, 1, 0},
		{"the watch reports that the version is too old", "20", func(w *watched) { w.changes = []change{status(gone)} }, 1, 0},
		{"the watch fails after a change", "20", func(w *watched) {
			w.changes = []change{changed(watch.Modified, "a", "25"), status(apierrors.NewInternalError(errors.New("no")))}
		}, 1, 0},
		{"the watch ends without a bookmark", "20", func(*watched) {}, 1, watchSeconds * time.Second},
		{"the bookmark is too old", "20", func(w *watched) { w.changes = []change{bookmark("29")} }, 1, (watchSeconds + 1) * time.Second},
		{"the watch does not end", "20", func(w *watched) { w.hangs = true }, 1, watchTimeout},
		{"the changes have no order", "20", func(w *watched) {
			w.changes = []change{changed(watch.Added, "a", "25"), changed(watch.Added, "b", "24"), bookmark("30")}
		}, 1, 0},
		{"the watch starts with old objects", "20", func(w *watched) { w.changes = []change{changed(watch.Added, "a", "15"), bookmark("30")} }, 1, 0},
		{"an event has no version", "20", func(w *watched) { w.changes = []change{changed(watch.Added, "a", ""), bookmark("30")} }, 1, 0},
		{"an event has no metadata", "20", func(w *watched) {
			w.changes = []change{{Event: watch.Event{Type: watch.Added, Object: &runtime.Unknown{}}}}
		}, 1, 0},
		{"an unknown event", "20", func(w *watched) { w.changes = []change{changed("MOVED", "a", "25"), bookmark("30")} }, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{server: server{items: []item{{"a", "1", "25"}, {"b", "2", "20"}}, version: "30"}}
				c.change(w)
				b, store := w.barrier(t, "")
				if err := store.Add(func() *corev1.Node { n := version("2", "20"); n.Name = "b"; return n }()); err != nil {
					t.Fatal(err)
				}
				store.Bookmark(c.cached)
				done := make(chan error, 1)
				go func() { done <- b.Wait(t.Context(), node("")) }()
				time.Sleep(c.within + time.Millisecond)
				synctest.Wait()
				w.expect(t, 2, c.watches)
				if len(done) != 0 {
					t.Fatal("the workers start while the cache misses an object")
				}
				// The store is not newer than the list, where versions can be compared: its objects decide.
				if err := store.Add(version("1", "25")); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// A leader that has read the versions before its caches fill needs neither a watch nor a list.
func TestLeaderBarrier_ReadVersions(t *testing.T) {
	w := &watched{server: server{version: "30", items: many}, refuses: errors.New("no")}
	b, store := w.barrier(t, "20")
	b.ReadVersions(t.Context(), node(""))
	b.ReadVersions(t.Context(), node("")) // of another capability
	w.version = "40"
	// The cache shows nothing: what it has reached decides.
	store.Bookmark("35")
	for range 2 {
		if err := b.Wait(t.Context(), node("")); err != nil {
			t.Fatal(err)
		}
	}
	b.ReadVersions(t.Context(), node(""))
	w.expect(t, 1, 0)
	// What was written until the reset counts after it.
	b.Reset()
	for _, i := range many {
		n := version(i.uid, i.version)
		n.Name = i.name
		_ = store.Add(n)
	}
	store.Bookmark("35")
	if err := b.Wait(t.Context(), node("")); err != nil {
		t.Fatal(err)
	}
	w.expect(t, 3, 1)
}

// A version that was read, or whose read began, before a reset is not relied upon.
func TestLeaderBarrier_ResetWhileVersionsAreRead(t *testing.T) {
	for name, during := range map[string]bool{"before": false, "meanwhile": true} {
		w := &watched{server: server{version: "30", items: many}, refuses: errors.New("no")}
		b, _ := w.barrier(t, "35")
		w.onList = func() {
			if w.lists == 1 && during {
				b.Reset()
			}
		}
		b.ReadVersions(t.Context(), node(""))
		if !during {
			b.Reset()
		}
		if err := b.Wait(t.Context(), node("")); err != nil {
			t.Fatal(err)
		}
		if w.lists != 2 {
			t.Errorf("%s: %d lists", name, w.lists)
		}
	}
}

func TestLeaderBarrier_VersionsCannotBeRead(t *testing.T) {
	w := &watched{server: server{version: "30", items: many, err: errors.New("no")}}
	b, _ := w.barrier(t, "30")
	b.ReadVersions(t.Context(), node(""))
	w.err = nil
	if err := b.Wait(t.Context(), node("")); err != nil {
		t.Fatal(err)
	}
	w.expect(t, 2, 0)
}

// Kinds are watched at the same time, each in the scope of its informer and from the version of its cache.
func TestLeaderBarrier_WatchesKindsAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{server: server{version: "30", items: many}, changes: []change{bookmark("30")}}
		b, _ := w.barrier(t, "20")
		b.Scopes = map[client.Object]ctrlcache.ByObject{
			&coordinationv1.Lease{}: {Field: fields.OneTermEqualSelector("metadata.namespace", "leases")},
		}
		started := time.Now()
		if err := b.Wait(t.Context(), &coordinationv1.Lease{}, &corev1.Node{}, &corev1.Pod{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != bookmarkDelay {
			t.Errorf("took %s", took)
		}
		w.expect(t, 3, 3)
		var namespaces []string
		for _, options := range w.watches {
			namespaces = append(namespaces, options.Namespace)
			raw := options.Raw
			if raw.ResourceVersion != "20" || !raw.AllowWatchBookmarks || *raw.TimeoutSeconds != watchSeconds || options.FieldSelector != nil {
				t.Errorf("watched with %+v", options)
			}
		}
		if slices.Sort(namespaces); !slices.Equal(namespaces, []string{"", "", "leases"}) {
			t.Errorf("watched the namespaces %q", namespaces)
		}
		time.Sleep(time.Minute)
	})
}

func TestLeaderBarrier_ContextEndsDuringWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, changes := range map[string][]change{
			"while it watches": nil, "while it waits": {changed(watch.Added, "a", "31")},
		} {
			w := &watched{server: server{version: "30", items: many}, changes: changes}
			b, _ := w.barrier(t, "20")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := b.Wait(ctx, node("")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
			w.expect(t, 1, 1)
		}
		time.Sleep(time.Minute)
	})
}

// The first page of a kind with few objects has them all: they are compared, and nothing is watched.
func TestLeaderBarrier_FewObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{server: server{version: "30", items: many[:1]}}
		b, store := w.barrier(t, "5")
		done := make(chan error, 1)
		go func() { done <- b.Wait(t.Context(), node("")) }()
		time.Sleep(time.Second)
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("the workers start while the cache misses an object")
		}
		if err := store.Add(version("1", "10")); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.expect(t, 1, 0)
	})
}

// The watch takes a second: what is listed sooner is not watched.
func TestLeaderBarrier_RemainingObjects(t *testing.T) {
	for _, c := range []struct {
		remaining      *int64
		lists, watches int
	}{
		{nil, 1, 1}, {new(int64(fewTrusted)), 2, 0}, {new(int64(fewTrusted + 1)), 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &watched{server: server{version: "30", items: many, remaining: c.remaining}, changes: []change{bookmark("30")}}
			b, store := w.barrier(t, "")
			for _, i := range many {
				n := version(i.uid, i.version)
				n.Name = i.name
				if err := store.Add(n); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Wait(t.Context(), node("")); err != nil {
				t.Fatal(err)
			}
			w.expect(t, c.lists, c.watches)
			time.Sleep(time.Minute)
		})
	}
}
