package operator

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// indexes makes each index of the cache once in the life of the informer that it is on: capabilities come and go, and an informer takes no
// index for a second time.
type indexes struct {
	client.FieldIndexer

	mu   sync.Mutex
	made map[string]map[string]bool
}

func newIndexes(indexer client.FieldIndexer) *indexes {
	return &indexes{FieldIndexer: indexer, made: map[string]map[string]bool{}}
}

// IndexField makes an index unless it is there.
func (i *indexes) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	kind := kindKey(object)
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
	delete(i.made, kindKey(object))
}

// kindKey tells kinds apart as the cache does.
func kindKey(object client.Object) string {
	return fmt.Sprintf("%T %s", object, object.GetObjectKind().GroupVersionKind())
}
