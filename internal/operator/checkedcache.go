package operator

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/undecodable"
)

// checkedCache is a cache that returns no object as it is that could not be decoded.
type checkedCache struct {
	cache.Cache

	tracker *undecodable.Tracker
}

// newCache returns what makes the cache of a manager. Its watches have a connection of their own.
func newCache(tracker *undecodable.Tracker) cache.NewCacheFunc {
	return func(config *rest.Config, options cache.Options) (cache.Cache, error) {
		config = ownConnection(config)
		var err error
		if options.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
			return nil, fmt.Errorf("creating the client of the cache: %w", err)
		}
		c, err := cache.New(config, options)
		return checkedCache{c, tracker}, err
	}
}

// RemoveInformer drops the cache of a kind.
func (c checkedCache) RemoveInformer(ctx context.Context, kind client.Object) error {
	defer c.tracker.Forget(kind)
	return c.Cache.RemoveInformer(ctx, kind)
}

// Get reads an object. If it could not be decoded, Get returns an undecodable.Error, so that no reconciliation that needs it goes on; what is known
// of the object is read all the same.
func (c checkedCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.Cache.Get(ctx, key, object, options...); err != nil {
		return err
	}
	return undecodable.Check(object)
}
