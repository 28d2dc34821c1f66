package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// Pods reads the pods for an Engine. They have only the fields that a drain needs, and must not be changed.
type Pods interface {
	// On lists the pods that are bound to a node.
	On(ctx context.Context, node string) ([]*corev1.Pod, error)
	// Get returns a pod, nil when there is none.
	Get(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error)
}

// CachedPods reads pods from the informer of a cache whose transform is TrimPod. An empty corev1.Pod takes more than a kibibyte, so the cache has
// something smaller, which is converted when it is read.
type CachedPods struct{ cache ctrlcache.Cache }

// NewCachedPods returns a CachedPods. IndexPods must be called before pods are read.
func NewCachedPods(cache ctrlcache.Cache) *CachedPods { return &CachedPods{cache} }

// On lists the pods that are bound to a node.
func (p *CachedPods) On(ctx context.Context, node string) ([]*corev1.Pod, error) {
	indexer, err := p.indexer(ctx)
	if err != nil {
		return nil, err
	}
	found, err := indexer.ByIndex(IndexNode, node)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	pods := make([]*corev1.Pod, 0, len(found))
	for _, object := range found {
		if small, ok := object.(*smallPod); ok {
			pods = append(pods, small.pod())
		}
	}
	return pods, nil
}

// Get returns a pod, nil when there is none.
func (p *CachedPods) Get(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	indexer, err := p.indexer(ctx)
	if err != nil {
		return nil, err
	}
	object, exists, err := indexer.GetByKey(key.String())
	if err != nil || !exists {
		return nil, err
	}
	small, ok := object.(*smallPod)
	if !ok {
		return nil, fmt.Errorf("the cache of pods has a %T", object)
	}
	return small.pod(), nil
}

func (p *CachedPods) indexer(ctx context.Context) (toolscache.Indexer, error) {
	informer, err := p.cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("reading pods: %w", err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return nil, fmt.Errorf("the informer of pods is a %T, which has no index", informer)
	}
	return indexed.GetIndexer(), nil
}

// IndexPods adds the index of CachedPods to the informer of pods.
func IndexPods(ctx context.Context, cache ctrlcache.Cache) error {
	informer, err := cache.GetInformer(ctx, &corev1.Pod{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("indexing pods: %w", err)
	}
	return informer.AddIndexers(toolscache.Indexers{IndexNode: func(object any) ([]string, error) {
		if small, ok := object.(*smallPod); ok && small.node != "" {
			return []string{small.node}, nil
		}
		return nil, nil
	}})
}
