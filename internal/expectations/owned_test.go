package expectations

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeCache is a cache of at most one Node.
type nodeCache struct {
	client.Reader
	node  *corev1.Node
	fails error
	asked int
}

func (s *nodeCache) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.asked++
	out, ok := into.(*corev1.Node)
	switch {
	case s.fails != nil:
		return s.fails
	case !ok || s.node == nil || s.node.Name != key.Name:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	s.node.DeepCopyInto(out)
	return nil
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func emptyNode() client.Object { return &corev1.Node{} }

func version(uid, version string) *corev1.Node {
	n := node("a")
	n.UID, n.ResourceVersion = types.UID(uid), version
	return n
}

func TestOwned(t *testing.T) {
	leaving := version("uid", "101")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	created, changed, deleted := (*Owned).Created, (*Owned).Updated, (*Owned).Deleted
	for _, c := range []struct {
		name   string
		expect func(*Owned, string, client.Object)
		// reached is the version of the whole cache, cached the object as the cache shows it.
		reached string
		cached  *corev1.Node
		pending bool
	}{
		{"created: the cache is older", created, "99", nil, true},
		{"created: the cache is older, whatever it shows under the name", created, "99", version("old", "98"), true},
		{"created: the cache is as new", created, "100", version("uid", "100"), false},
		{"created: the cache is newer, the object was deleted again", created, "1000", nil, false},
		{"created: the version of the cache is not known, and it is not there", created, "", nil, true},
		{"created: it is there", created, "", version("uid", "100"), false},
		{"created: it is there, changed by another writer", created, "", version("uid", "120"), false},
		{"created: its predecessor is still there", created, "", version("old", "98"), true},
		{"created: it is gone, and its successor is there", created, "", version("new", "130"), false},
		{"created: it is there, with a version that cannot be compared", created, "", version("uid", "x"), false},
		{"created: the version of the cache cannot be compared", created, "x", nil, true},

		{"changed: the cache is older", changed, "99", version("uid", "98"), true},
		{"changed: the cache is as new", changed, "100", version("uid", "100"), false},
		{"changed: the version of the cache is not known, and it is older", changed, "", version("uid", "98"), true},
		{"changed: the version of the cache is not known, and it is as new", changed, "", version("uid", "100"), false},
		{"changed: it is gone", changed, "", nil, false},

		{"deleted: it is still there, however new the cache is", deleted, "1000", version("uid", "100"), true},
		{"deleted: it has a deletion timestamp", deleted, "", leaving, false},
		{"deleted: it is gone", deleted, "", nil, false},
		{"deleted: its successor is there", deleted, "", version("new", "130"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := NewOwned(&nodeCache{node: c.cached}, emptyNode, OwnedOptions{Version: func() string { return c.reached }})
			c.expect(f, "owner", version("uid", "100"))
			pending, err := f.Pending(t.Context(), "owner")
			if err != nil || pending != c.pending {
				t.Errorf("pending %v, error %v", pending, err)
			}
			if (f.Len() == 1) != c.pending {
				t.Errorf("%d owners have expectations", f.Len())
			}
			if other, err := f.Pending(t.Context(), "another"); other || err != nil {
				t.Errorf("another owner has expectations: %v %v", other, err)
			}
		})
	}
}

// No object is read from a cache whose version is known, except for deletions: a thousand creations are one comparison each.
func TestOwned_ReadsFromTheCache(t *testing.T) {
	cached := &nodeCache{}
	f := NewOwned(cached, emptyNode, OwnedOptions{Version: func() string { return "100" }})
	f.Created("owner", version("uid", "100"))
	if pending, _ := f.Pending(t.Context(), "owner"); pending || cached.asked != 0 {
		t.Errorf("pending %v, asked %d times", pending, cached.asked)
	}
	f.Deleted("owner", version("uid", "100"))
	for range 2 {
		if pending, _ := f.Pending(t.Context(), "owner"); pending || cached.asked != 1 {
			t.Errorf("pending %v, asked %d times", pending, cached.asked)
		}
	}
}

func TestOwned_Forget(t *testing.T) {
	f := NewOwned(&nodeCache{}, emptyNode, OwnedOptions{})
	f.Created("owner", version("uid", "100"))
	f.Created("another", version("uid", "100"))
	f.Forget("owner")
	if pending, _ := f.Pending(t.Context(), "owner"); pending || f.Len() != 1 {
		t.Error("not forgotten")
	}
	if pending, _ := f.Pending(t.Context(), "another"); !pending {
		t.Error("the wrong one is forgotten")
	}
}

func TestOwned_CacheFails(t *testing.T) {
	no := errors.New("no")
	f := NewOwned(&nodeCache{fails: no}, emptyNode, OwnedOptions{})
	f.Created("owner", version("uid", "100"))
	if pending, err := f.Pending(t.Context(), "owner"); !pending || !errors.Is(err, no) {
		t.Errorf("pending %v, error %v", pending, err)
	}
}

// stored is an informer with a store.
type stored struct {
	ctrlcache.Informer
	store cache.Store
}

func (s *stored) GetStore() cache.Store { return s.store }

type storedInformer struct {
	informertest.FakeInformers
	informer ctrlcache.Informer
	refuses  error
}

func (c *storedInformer) GetInformer(context.Context, client.Object, ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return c.informer, c.refuses
}

func TestStoreVersion(t *testing.T) {
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	newest, err := StoreVersion(t.Context(), &storedInformer{informer: &stored{store: store}}, node("a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change func() error
		want   string
	}{
		{func() error { return nil }, ""},
		{func() error { return store.Add(version("uid", "7")) }, "7"},
		{func() error { return store.Delete(version("uid", "9")) }, "9"},
		{func() error { store.Bookmark("12"); return nil }, "12"},
		{func() error { return store.Replace(nil, "15") }, "15"},
	} {
		if err := step.change(); err != nil || newest() != step.want {
			t.Errorf("error %v, version %q, want %q", err, newest(), step.want)
		}
	}
}

func TestStoreVersion_Unknown(t *testing.T) {
	for name, from := range map[string]ctrlcache.Informer{"without a store": struct{ ctrlcache.Informer }{}, "without a store yet": &stored{}} {
		newest, err := StoreVersion(t.Context(), &storedInformer{informer: from}, node("a"))
		if err != nil || newest() != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	no := errors.New("no")
	if _, err := StoreVersion(t.Context(), &storedInformer{refuses: no}, node("a")); !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
}

func TestOwned_OverdueExpectations(t *testing.T) {
	created, updated, deleted := (*Owned).Created, (*Owned).Updated, (*Owned).Deleted
	for _, c := range []struct {
		name    string
		expect  func(*Owned, string, client.Object)
		cached  *corev1.Node
		server  *server
		pending bool
	}{
		{"created and there: pending", created, nil, &server{items: []item{{"a", "uid", "100"}}}, true},
		{"created and gone: dropped", created, nil, &server{}, false},
		{"created before etcd was restored to an older object: dropped", created, version("old", "40"), &server{items: []item{{"a", "old", "40"}}}, false},
		{"created, without Live: dropped", created, nil, nil, false},
		{"updated and there: pending", updated, version("uid", "90"), &server{items: []item{{"a", "uid", "100"}}}, true},
		{"updated before etcd was restored: dropped", updated, version("uid", "90"), &server{items: []item{{"a", "uid", "90"}}}, false},
		{"deleted, the cache still shows it: pending", deleted, version("uid", "100"), &server{}, true},
		{"deleted before etcd was restored: dropped", deleted, version("uid", "100"), &server{items: []item{{"a", "uid", "100"}}}, false},
		{"the API server does not answer: pending", created, nil, &server{err: errors.New("refused")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := testingclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
			options := OwnedOptions{Clock: clock}
			if c.server != nil {
				options.Live = c.server.live(t)
			}
			o := NewOwned(&nodeCache{node: c.cached}, emptyNode, options)
			c.expect(o, "owner", version("uid", "100"))
			if pending, err := o.Pending(t.Context(), "owner"); !pending || err != nil {
				t.Fatalf("pending %v, error %v", pending, err)
			}
			for range 2 {
				clock.SetTime(clock.Now().Add(pendingTimeout))
				if pending, err := o.Pending(t.Context(), "owner"); pending != c.pending || err != nil {
					t.Errorf("pending %v, error %v", pending, err)
				}
			}
		})
	}
}

// Most owners are not reconciled again, for example the lease of a node that is gone.
func TestOwned_OwnerNotReconciledAgain(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	o := NewOwned(&nodeCache{}, emptyNode, OwnedOptions{Clock: clock})
	const owners = 100
	for i := range owners {
		o.Deleted(fmt.Sprintf("owner-%d", i), version("uid", "100"))
	}
	o.Created("pending", version("uid", "100"))
	reconcile := func() {
		for range 2 * owners {
			if pending, err := o.Pending(t.Context(), "another"); pending || err != nil {
				t.Fatalf("pending %v, error %v", pending, err)
			}
		}
	}
	if reconcile(); o.Len() != owners+1 {
		t.Errorf("%d owners left within the first minute", o.Len())
	}
	clock.SetTime(clock.Now().Add(pendingTimeout))
	if reconcile(); o.Len() != 1 || len(o.checks) != 1 {
		t.Errorf("%d owners and %d writes left, want the one that the cache does not show", o.Len(), len(o.checks))
	}
}
