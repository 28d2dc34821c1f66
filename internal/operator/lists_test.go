package operator

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/undecodable"
)

// cacheOf returns the operator's cache of some objects, which are the same for every kind that has them, with an index of names.
func cacheOf(t testing.TB, objects ...client.Object) listingCache {
	t.Helper()
	options := quietCacheOptions(t)
	options.NewInformer = func(
		_ toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		source := fcache.NewFakeControllerSource()
		for _, object := range objects {
			if reflect.TypeOf(object) == reflect.TypeOf(kind) {
				source.Add(object.DeepCopyObject())
			}
		}
		return toolscache.NewSharedIndexInformer(source, kind, resync, indexers)
	}
	made, err := newCache(undecodable.NewTracker())(nowhere, options)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = made.Start(t.Context()) }()
	if !made.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not start")
	}
	indexes := newIndexes(made)
	for _, object := range objects {
		names := func(object client.Object) []string { return []string{object.GetName()} }
		if err := indexes.IndexField(t.Context(), object, "metadata.name", names); err != nil {
			t.Fatal(err)
		}
		if _, err := made.GetInformer(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	listing, ok := made.(listingCache)
	if !ok {
		t.Fatalf("made %T", made)
	}
	return listing
}

func fullMachines() []client.Object {
	other := fullMachine()
	other.Namespace, other.Name, other.Labels = "others", "other", nil
	return []client.Object{fullMachine(), other}
}

// TestListingCache_ListsAsControllerRuntime: whatever the options, the items are the same as from controller-runtime's cache.
func TestListingCache_ListsAsControllerRuntime(t *testing.T) {
	cases := map[string]struct {
		options []client.ListOption
		count   int
		direct  bool
	}{
		"all":                       {nil, 2, true},
		"a namespace":               {[]client.ListOption{client.InNamespace("others")}, 1, true},
		"no such namespace":         {[]client.ListOption{client.InNamespace("none")}, 0, true},
		"an index":                  {[]client.ListOption{client.MatchingFields{"metadata.name": "other"}}, 1, true},
		"nothing in the index":      {[]client.ListOption{client.MatchingFields{"metadata.name": "none"}}, 0, true},
		"a label":                   {[]client.ListOption{client.HasLabels{"pool"}}, 1, false},
		"a label and a namespace":   {[]client.ListOption{client.HasLabels{"pool"}, client.InNamespace("others")}, 0, false},
		"any namespace":             {[]client.ListOption{client.InNamespace("")}, 2, false},
		"a limit":                   {[]client.ListOption{client.Limit(5)}, 2, false},
		"copies":                    {[]client.ListOption{client.UnsafeDisableDeepCopyOption(false)}, 2, false},
		"an index and a label":      {[]client.ListOption{client.MatchingFields{"metadata.name": "m"}, client.HasLabels{"pool"}}, 1, false},
		"two requirements, matched": {[]client.ListOption{client.MatchingFieldsSelector{Selector: bothNamed("m", "m")}}, 1, false},
		"two requirements":          {[]client.ListOption{client.MatchingFieldsSelector{Selector: bothNamed("m", "other")}}, 0, false},
	}
	listing := cacheOf(t, fullMachines()...)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got, want machinev1beta1.MachineList
			if err := listing.List(t.Context(), &got, c.options...); err != nil {
				t.Fatal(err)
			}
			if err := listing.Cache.List(t.Context(), &want, c.options...); err != nil {
				t.Fatal(err)
			}
			byName := func(list *machinev1beta1.MachineList) map[string]machinev1beta1.Machine {
				items := map[string]machinev1beta1.Machine{}
				for i := range list.Items {
					items[list.Items[i].Name] = list.Items[i]
				}
				return items
			}
			if len(got.Items) != c.count {
				t.Errorf("%d items, want %d", len(got.Items), c.count)
			}
			if diff := cmp.Diff(byName(&want), byName(&got)); diff != "" {
				t.Error(diff)
			}
			_, listed, err := listItems(t.Context(), listing.Cache, ofMachine, c.options)
			if err != nil || listed != c.direct {
				t.Errorf("listed without reflection is %t, want %t: %v", listed, c.direct, err)
			}
		})
	}
}

func bothNamed(a, b string) fields.Selector {
	return fields.AndSelectors(fields.OneTermEqualSelector("metadata.name", a), fields.OneTermEqualSelector("metadata.name", b))
}

// TestListingCache_UnknownIndex: an index that was forgotten is an error, and not an empty list.
func TestListingCache_UnknownIndex(t *testing.T) {
	listing := cacheOf(t, fullMachines()...)
	if err := listing.List(t.Context(), &machinev1beta1.MachineList{}, client.MatchingFields{"spec.unknown": "x"}); err == nil {
		t.Error("no error")
	}
}

// TestListingCache_BeforeItIsFull: a list waits until the cache is full, as before.
func TestListingCache_BeforeItIsFull(t *testing.T) {
	cache, err := newCache(undecodable.NewTracker())(nowhere, quietCacheOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.List(t.Context(), &corev1.NodeList{}); err == nil {
		t.Error("a cache that has not been started lists")
	}
	go func() { _ = cache.Start(t.Context()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := cache.List(ctx, &corev1.NodeList{}); err == nil {
		t.Error("a cache that cannot be filled lists")
	}
}

func quietCacheOptions(t testing.TB) cache.Options {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	options := cacheOptions("", false)
	options.Scheme, options.Mapper = scheme, newMapper()
	return options
}

// TestListingCache_Kinds: every list that is made without reflection equals controller-runtime's list.
func TestListingCache_Kinds(t *testing.T) {
	meta := fullMeta("m")
	listing := cacheOf(t, &corev1.Node{ObjectMeta: meta}, &machinev1beta1.Machine{ObjectMeta: meta},
		&machinev1beta1.MachineSet{ObjectMeta: meta}, &drover.NodeGroup{ObjectMeta: meta}, &medik8s.NodeMaintenance{ObjectMeta: meta},
		&kubevirt.NodeMaintenance{ObjectMeta: meta})
	for _, list := range []client.ObjectList{
		&corev1.NodeList{}, &machinev1beta1.MachineList{}, &machinev1beta1.MachineSetList{}, &drover.NodeGroupList{},
		&medik8s.NodeMaintenanceList{}, &kubevirt.NodeMaintenanceList{},
	} {
		want, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			t.Fatalf("the copy of %T is none", list)
		}
		if err := listing.Cache.List(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		want.SetContinue("")
		if err := listing.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, list); diff != "" {
			t.Errorf("%T: %s", list, diff)
		}
	}
}

// TestListingCache_Options: listingCache can read the cache directly: the cache has all namespaces, makes no copies, and has an informer for each
// kind.
func TestListingCache_Options(t *testing.T) {
	options := cacheOptions("", false)
	if options.DefaultUnsafeDisableDeepCopy == nil || !*options.DefaultUnsafeDisableDeepCopy || options.ReaderFailOnMissingInformer ||
		len(options.DefaultNamespaces) > 0 {
		t.Errorf("options are %+v", options)
	}
	for object, of := range options.ByObject {
		if of.UnsafeDisableDeepCopy != nil || len(of.Namespaces) > 0 {
			t.Errorf("those of %T are %+v", object, of)
		}
	}
}

// BenchmarkListingCache searches for a Machine that does not exist, with listingCache and with controller-runtime.
func BenchmarkListingCache(b *testing.B) {
	listing := cacheOf(b, fullMachines()...)
	for name, from := range map[string]client.Reader{"drover": listing, "controller-runtime": listing.Cache} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var machines machinev1beta1.MachineList
				if err := from.List(b.Context(), &machines, client.MatchingFields{"metadata.name": "none"}); err != nil || len(machines.Items) != 0 {
					b.Fatal(err)
				}
			}
		})
	}
}
