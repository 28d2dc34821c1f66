package certs

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// single watches one object by its name. A cache of all Secrets, or all webhook configurations, would cost memory, and a permission that
// nobody likes to give.
type single struct {
	informer toolscache.SharedIndexInformer
	once     sync.Once
	done     sync.WaitGroup
}

// only narrows a request to one name.
func only(name string, options metav1.ListOptions) metav1.ListOptions {
	options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
	return options
}

// newSingle makes one that calls changed when the object may have, and failed when it cannot be watched.
func newSingle(lw toolscache.ListerWatcher, kind runtime.Object, changed, failed func()) *single {
	s := &single{informer: toolscache.NewSharedIndexInformer(lw, kind, 0, toolscache.Indexers{})}
	// Neither fails before the informer starts.
	_, _ = s.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	_ = s.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *toolscache.Reflector, err error) {
		failed()
		log.FromContext(ctx).Info("cannot watch what the webhook needs; trying again", "kind", fmt.Sprintf("%T", kind), "error", err.Error())
	})
	return s
}

// start begins to watch, once, until the context ends. Changed is called when the first answer is there, also when that is "no object".
func (s *single) start(ctx context.Context, changed func()) {
	s.once.Do(func() {
		s.done.Go(func() { s.informer.RunWithContext(ctx) })
		s.done.Go(func() {
			if toolscache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
				changed()
			}
		})
	})
}

// wait returns when the watch has ended.
func (s *single) wait() { s.done.Wait() }

func (s *single) synced() bool { return s.informer.HasSynced() }

// get returns the object, nil when there is none.
func (s *single) get() any {
	for _, object := range s.informer.GetStore().List() {
		return object
	}
	return nil
}
