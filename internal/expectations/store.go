package expectations

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// StoreVersion returns a function that returns the newest resourceVersion that the cache of a kind has seen, empty if that is not known. It fails
// when the kind has no informer.
func StoreVersion(ctx context.Context, informers ctrlcache.Informers, kind client.Object) (func() string, error) {
	store, err := storeOf(ctx, informers, kind)
	if err != nil {
		return nil, err
	}
	if store == nil {
		return func() string { return "" }, nil
	}
	return store.LastStoreSyncResourceVersion, nil
}

// storeOf returns the store of the informer of a kind; nil if the informer does not export it.
func storeOf(ctx context.Context, informers ctrlcache.Informers, kind client.Object) (cache.Store, error) {
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("finding the informer of %T: %w", kind, err)
	}
	if stored, ok := informer.(interface{ GetStore() cache.Store }); ok {
		return stored.GetStore(), nil
	}
	return nil, nil
}
