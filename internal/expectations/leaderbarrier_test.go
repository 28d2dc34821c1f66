package expectations

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type item struct{ name, uid, version string }

// server answers metadata-only lists of Nodes, in pages of one.
type server struct {
	client.Reader
	items   []item
	version string
	err     error
	// remaining is how many objects follow a page, as the server says.
	remaining *int64
	// lists counts the lists. options are the options of the last request.
	lists   int
	options client.ListOptions
	// onList is called before a list is answered.
	onList func()
}

func (s *server) live(t *testing.T) *Live {
	t.Helper()
	return NewLive(s, scheme.Scheme)
}

func (s *server) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	s.options = client.ListOptions{}
	s.options.ApplyOptions(options)
	if s.options.Continue == "" {
		s.lists++
		if s.onList != nil {
			s.onList()
		}
	}
	if s.err != nil {
		return s.err
	}
	list, ok := into.(*metav1.PartialObjectMetadataList)
	if !ok {
		return errors.New("the list is not of metadata alone")
	}
	list.ResourceVersion, list.RemainingItemCount = s.version, s.remaining
	items := s.items
	if s.options.FieldSelector != nil {
		if name, exact := s.options.FieldSelector.RequiresExactMatch("metadata.name"); exact {
			items = slices.DeleteFunc(slices.Clone(items), func(i item) bool { return i.name != name })
		}
	}
	for at, i := range items {
		if s.options.Continue != "" && i.name <= s.options.Continue {
			continue
		}
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: i.name, UID: types.UID(i.uid), ResourceVersion: i.version,
		}})
		if at < len(items)-1 {
			list.Continue = i.name
		}
		break
	}
	return nil
}

func barrierOf(t *testing.T, s *server, store cache.Store) *LeaderBarrier {
	t.Helper()
	return &LeaderBarrier{Cache: &storedInformer{informer: &stored{store: store}}, Live: s.live(t)}
}

func storeWith(t *testing.T, items ...item) cache.Store {
	t.Helper()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, i := range items {
		n := version(i.uid, i.version)
		n.Name = i.name
		if err := store.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestSnapshot_Missing(t *testing.T) {
	listed := []item{{"a", "1", "10"}, {"b", "2", "20"}}
	for _, c := range []struct {
		name   string
		cached []item
		newest string
		want   string
	}{
		{"the cache has the same", listed, "", ""},
		{"an object is newer", []item{{"a", "1", "35"}, {"b", "2", "20"}}, "", ""},
		{"an object is older", []item{{"a", "1", "9"}, {"b", "2", "20"}}, "", "a"},
		{"an object is missing", listed[:1], "", "b"},
		{"an object was deleted since the list, and the cache is newer", listed[:1], "31", ""},
		{"a predecessor of the same name", []item{{"a", "1", "10"}, {"b", "0", "15"}}, "", "b"},
		{"an object was deleted, which the cache does not show", append(listed[:2:2], item{"c", "3", "25"}), "25", "c"},
		{"an object was created since the list", append(listed[:2:2], item{"c", "3", "31"}), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{items: listed, version: "30"}
			store := storeWith(t, c.cached...)
			if c.newest != "" {
				store.Bookmark(c.newest)
			}
			current, err := barrierOf(t, s, store).list(t.Context(), node(""))
			if err != nil || len(current.objects) != 2 || current.version != "30" {
				t.Fatalf("listed %v, error %v", current, err)
			}
			// Storing an object moves the version of the store, too: what counts here is each object.
			if c.newest == "" {
				current.version = "99"
				if strings.HasPrefix(c.name, "an object was created") {
					current.version = "30"
				}
			}
			if got := current.missing(store); got != c.want {
				t.Errorf("missing %q, want %q", got, c.want)
			}
		})
	}
}

// The workers wait for a cache that lags, and the list is repeated when one of its objects was deleted meanwhile. There is no watch: of the first
// list the version alone is used.
func TestLeaderBarrier_CacheLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{items: []item{{"a", "1", "10"}, {"b", "2", "20"}}, version: "30"}
		s.onList = func() {
			if s.lists == 3 {
				s.items = s.items[:1] // it is deleted; a cache that never had it gets no event
			}
		}
		store := storeWith(t, item{"a", "1", "9"})
		done := make(chan error, 1)
		started := time.Now()
		go func() { done <- barrierOf(t, s, store).Wait(t.Context(), node("")) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("the workers start while the cache lags")
		}
		_ = store.Update(func() *corev1.Node { n := version("1", "10"); n.Name = "a"; return n }())
		time.Sleep(time.Second)
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("the workers start while the cache misses an object")
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); s.lists != 3 || took > relistInterval+time.Second {
			t.Errorf("%d lists, %s", s.lists, took)
		}
	})
}

// TestLeaderBarrier_OncePerStore: capabilities that watch the same kind compare its cache once; a new informer is compared anew, and all are after
// a reset.
func TestLeaderBarrier_OncePerStore(t *testing.T) {
	s := &server{items: []item{{"a", "1", "10"}}, version: "10"}
	b := barrierOf(t, s, storeWith(t, s.items...))
	expect := func(lists int) {
		t.Helper()
		if err := b.Wait(t.Context(), &corev1.Node{}); err != nil || s.lists != lists {
			t.Errorf("%d lists, want %d: %v", s.lists, lists, err)
		}
	}
	expect(1)
	expect(1)
	b.Cache = &storedInformer{informer: &stored{store: storeWith(t, s.items...)}}
	expect(2)
	b.Reset()
	expect(3)
}

func TestLeaderBarrier_ListFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{err: errors.New("etcd has no leader")}
		s.onList = func() {
			if s.lists == 4 {
				s.err = nil
			}
		}
		started := time.Now()
		if err := barrierOf(t, s, storeWith(t)).Wait(t.Context(), node("")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); s.lists != 4 || took < 7*time.Second || took > 8*time.Second {
			t.Errorf("%d lists in %s, want a backoff that doubles from a second", s.lists, took)
		}
	})
}

func TestLeaderBarrier_ContextEnds(t *testing.T) {
	for name, s := range map[string]*server{
		"while it lists": {err: errors.New("no")}, "while it waits": {items: []item{{"a", "1", "10"}}, version: "30"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.onList = cancel
		if err := barrierOf(t, s, storeWith(t)).Wait(ctx, node("")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLeaderBarrier_NoStore(t *testing.T) {
	b := &LeaderBarrier{Cache: &storedInformer{informer: &stored{}}, Live: (&server{}).live(t)}
	if err := b.Wait(t.Context(), node("")); err == nil || !strings.Contains(err.Error(), "no store") {
		t.Errorf("error %v", err)
	}
}

func TestLeaderBarrier_ScopesOfInformers(t *testing.T) {
	selector := labels.SelectorFromSet(labels.Set{"drover": "yes"})
	s := &server{}
	b := barrierOf(t, s, storeWith(t))
	b.Scopes = map[client.Object]ctrlcache.ByObject{
		&coordinationv1.Lease{}: {Field: fields.OneTermEqualSelector("metadata.namespace", "leases")},
		&corev1.Pod{}:           {Field: fields.OneTermEqualSelector("spec.nodeName", "a"), Label: selector},
	}
	for _, c := range []struct {
		kind                    client.Object
		namespace, field, label string
	}{
		{&coordinationv1.Lease{}, "leases", "", ""},
		{&corev1.Pod{}, "", "spec.nodeName=a", "drover=yes"},
		{&corev1.Node{}, "", "", ""},
	} {
		if err := b.Wait(t.Context(), c.kind); err != nil {
			t.Fatal(err)
		}
		var field, label string
		if s.options.FieldSelector != nil {
			field = s.options.FieldSelector.String()
		}
		if s.options.LabelSelector != nil {
			label = s.options.LabelSelector.String()
		}
		if s.options.Namespace != c.namespace || field != c.field || label != c.label || s.options.Raw != nil {
			t.Errorf("%T: listed with %+v", c.kind, s.options)
		}
	}
}
