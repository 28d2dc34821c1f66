package operator

import (
	"context"
	"reflect"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/undecodable"
)

// cacheOf returns the operator's cache of some objects, which are the same for every kind that has them, with an index of names.
func cacheOf(t testing.TB, objects ...client.Object) cache.Cache {
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
	return made
}

func fullMachines() []client.Object {
	other := fullMachine()
	other.Namespace, other.Name, other.Labels = "others", "other", nil
	return []client.Object{fullMachine(), other}
}

// TestCheckedCache_Indexes: the cache finds objects by the indexes that Drover makes.
func TestCheckedCache_Indexes(t *testing.T) {
	made := cacheOf(t, fullMachines()...)
	for name, want := range map[string]int{"other": 1, "none": 0} {
		var found machinev1beta1.MachineList
		if err := made.List(t.Context(), &found, client.MatchingFields{"metadata.name": name}); err != nil || len(found.Items) != want {
			t.Errorf("%d Machines %q, want %d: %v", len(found.Items), name, want, err)
		}
	}
}

// TestCheckedCache_UnknownIndex: an index that was forgotten is an error, and not an empty list.
func TestCheckedCache_UnknownIndex(t *testing.T) {
	made := cacheOf(t, fullMachines()...)
	if err := made.List(t.Context(), &machinev1beta1.MachineList{}, client.MatchingFields{"spec.unknown": "x"}); err == nil {
		t.Error("no error")
	}
}

// TestCheckedCache_BeforeItIsFull: a list waits until the cache is full, as before.
func TestCheckedCache_BeforeItIsFull(t *testing.T) {
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

// TestCheckedCache_Options: the cache has all namespaces, makes no copies, and has an informer for each kind.
func TestCheckedCache_Options(t *testing.T) {
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
