package operator

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// indexes makes each index of the cache once in the life of its informer: capabilities come and go, and an informer takes no index for a second time.
// A read by an index covers all namespaces; List with a namespace finds nothing.
type indexes struct {
	cache ctrlcache.Informers

	mu   sync.Mutex
	made map[kind]map[string]bool
}

var _ client.FieldIndexer = (*indexes)(nil)

func newIndexes(cache ctrlcache.Informers) *indexes {
	return &indexes{cache: cache, made: map[kind]map[string]bool{}}
}

// IndexField makes an index unless it is there.
func (i *indexes) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	kind := kindOf(object)
	if i.made[kind][field] {
		return nil
	}
	informer, err := i.cache.GetInformer(ctx, object, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("indexing %T by %s: %w", object, field, err)
	}
	if err := informer.AddIndexers(toolscache.Indexers{indexName + field: keysOf(extract)}); err != nil {
		return fmt.Errorf("indexing %T by %s: %w", object, field, err)
	}
	if i.made[kind] == nil {
		i.made[kind] = map[string]bool{}
	}
	i.made[kind][field] = true
	return nil
}

// How the cache of controller-runtime finds objects by a field: the name of the index, and the key of objects of all namespaces
// (https://github.com/kubernetes-sigs/controller-runtime/blob/v0.25.1/pkg/cache/internal/cache_reader.go). Its own IndexField also keeps a key for
// the namespace of each object. That takes twice the memory. An informer also updates an index of two keys at each event; it skips an index whose
// single key stays the same.
const (
	indexName     = "field:"
	allNamespaces = "__all_namespaces/"
)

// keysOf returns the function of an informer's index.
func keysOf(extract client.IndexerFunc) toolscache.IndexFunc {
	return func(item any) ([]string, error) {
		object, ok := item.(client.Object)
		if !ok {
			return nil, fmt.Errorf("a %T is no object", item)
		}
		values := extract(object)
		keys := make([]string, len(values))
		for i, value := range values {
			keys[i] = allNamespaces + value
		}
		return keys, nil
	}
}

// forget notes that the informer of a kind is gone, and its indexes with it.
func (i *indexes) forget(object client.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.made, kindOf(object))
}

// kind distinguishes kinds as the cache does. Types of the same name in packages of the same name are two.
type kind struct {
	of  reflect.Type
	gvk schema.GroupVersionKind
}

func kindOf(object client.Object) kind {
	return kind{reflect.TypeOf(object), object.GetObjectKind().GroupVersionKind()}
}
