package operator

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// indexes makes each index of the cache once in the life of the informer that it is on: capabilities come and go, and an informer takes no
// index for a second time.
type indexes struct {
	client.FieldIndexer

	mu   sync.Mutex
	made map[kind]map[string]bool
}

func newIndexes(indexer client.FieldIndexer) *indexes {
	return &indexes{FieldIndexer: indexer, made: map[kind]map[string]bool{}}
}

// IndexField makes an index unless it is there.
func (i *indexes) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	kind := kindOf(object)
	if i.made[kind][field] {
		return nil
	}
	if err := i.FieldIndexer.IndexField(ctx, object, field, extract); err != nil {
		return err
	}
	if i.made[kind] == nil {
		i.made[kind] = map[string]bool{}
	}
	i.made[kind][field] = true
	return nil
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
