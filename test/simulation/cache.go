package simulation

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/drain/engine"
)

// informer is the cache of one kind in a process.
type informer struct {
	kind   *kind
	server *server
	// at is how many of the server's events the store shows.
	at int
	// versioned informers report the newest version that they have seen.
	versioned bool

	mu sync.Mutex
	// objects is never changed but replaced, since who reads it may do so while the next event is shown.
	objects map[string]client.Object
	version int

	indexes   map[string]client.IndexerFunc
	podIndex  toolscache.IndexFunc
	listeners []*listener
}

// listener is a handler of a controller, with the events that it has not got yet.
type listener struct {
	controller string
	handler    toolscache.ResourceEventHandler
	pending    []func(toolscache.ResourceEventHandler)
	// initial is how many of the objects that there were first it has not got yet; it may be negative.
	initial atomic.Int64
}

// registration is a listener as a controller sees it.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
	listener *listener
}

// HasSynced reports whether the handler has got the objects that there were first.
func (r *registration) HasSynced() bool { return r.listener.initial.Load() <= 0 }

// newInformer begins with a list as the server would have answered after so many events.
func newInformer(s *server, k *kind, at int, versioned bool) *informer {
	i := &informer{kind: k, server: s, at: at, objects: map[string]client.Object{}, versioned: versioned, indexes: map[string]client.IndexerFunc{}}
	i.replace(i.state(at), i.versionAt(at))
	return i
}

// all is what the store shows.
func (i *informer) all() map[string]client.Object {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.objects
}

// seen is the newest version that the store has seen.
func (i *informer) seen() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.version
}

func (i *informer) replace(objects map[string]client.Object, version int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.objects, i.version = objects, version
}

// state is what the kind was after so many events.
func (i *informer) state(at int) map[string]client.Object {
	objects := map[string]client.Object{}
	for _, e := range i.server.events[i.kind][:at] {
		if e.gone {
			delete(objects, keyOf(e.object))
			continue
		}
		objects[keyOf(e.object)] = e.object
	}
	return objects
}

func (i *informer) versionAt(at int) int {
	if at == 0 {
		return 0
	}
	version, err := strconv.Atoi(i.server.events[i.kind][at-1].object.GetResourceVersion())
	if err != nil {
		panic(err)
	}
	return version
}

// behind is how many events the store does not show.
func (i *informer) behind() int { return len(i.server.events[i.kind]) - i.at }

// next shows one more event to the store, and puts it before the handlers.
func (i *informer) next() {
	e := i.server.events[i.kind][i.at]
	i.at++
	key, objects := keyOf(e.object), maps.Clone(i.all())
	before := objects[key]
	if e.gone {
		delete(objects, key)
		i.replace(objects, i.versionAt(i.at))
		i.enqueue(before, nil, e.object)
		return
	}
	objects[key] = e.object
	i.replace(objects, i.versionAt(i.at))
	i.enqueue(before, e.object, nil)
}

// relist is what happens when a watch breaks off: the store is replaced by a list, and handlers get the difference only.
func (i *informer) relist() {
	before := i.all()
	i.at = len(i.server.events[i.kind])
	after := i.state(i.at)
	i.replace(after, i.server.version)
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] != after[key] {
			i.enqueue(before[key], after[key], nil)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] == nil {
			i.enqueue(before[key], nil, nil)
		}
	}
}

// enqueue adds a change to what all handlers get. last is the last state of an object that is gone, or nil if the watch did not see it.
func (i *informer) enqueue(before, after, last client.Object) {
	for _, l := range i.listeners {
		l.pending = append(l.pending, func(handler toolscache.ResourceEventHandler) {
			switch {
			case before == nil && after != nil:
				handler.OnAdd(i.shown(after), false)
			case after != nil:
				handler.OnUpdate(i.shown(before), i.shown(after))
			case last != nil:
				handler.OnDelete(i.shown(last))
			default:
				handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: keyOf(before), Obj: i.shown(before)})
			}
		})
	}
}

// shown is an object as the cache keeps it.
func (i *informer) shown(object client.Object) any {
	if i.kind.name != "Pod" {
		return object
	}
	small, err := engine.TrimPod(copied(object))
	if err != nil {
		panic(err)
	}
	return small
}

// listen adds a handler, which gets the existing objects first.
func (i *informer) listen(controller string, handler toolscache.ResourceEventHandler) *listener {
	l := &listener{controller: controller, handler: handler}
	objects := i.all()
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		object := objects[key]
		l.pending = append(l.pending, func(handler toolscache.ResourceEventHandler) { handler.OnAdd(i.shown(object), true) })
	}
	l.initial.Store(int64(len(l.pending)))
	i.listeners = append(i.listeners, l)
	slices.SortStableFunc(i.listeners, func(a, b *listener) int { return cmp.Compare(a.controller, b.controller) })
	return l
}

// controllerInformer is an informer as a controller sees it.
type controllerInformer struct {
	ctrlcache.Informer
	process    *process
	controller string
	inner      *informer
}

// AddEventHandler adds a handler.
func (r *controllerInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	r.process.mu.Lock()
	defer r.process.mu.Unlock()
	return &registration{listener: r.inner.listen(r.controller, handler)}, nil
}

// RemoveEventHandler does nothing: the process ends with its handlers.
func (*controllerInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error {
	return nil
}

// AddIndexers takes the index of pods.
func (r *controllerInformer) AddIndexers(indexers toolscache.Indexers) error {
	r.inner.podIndex = indexers[engine.IndexNode]
	return nil
}

// GetStore returns the newest version of the store, if the cache reports it.
func (r *controllerInformer) GetStore() toolscache.Store {
	if !r.inner.versioned {
		return nil
	}
	return &versionStore{process: r.process, inner: r.inner}
}

// GetIndexer is for the drain engine, which reads pods as the cache keeps them.
func (r *controllerInformer) GetIndexer() toolscache.Indexer { return &podIndexer{inner: r.inner} }

type versionStore struct {
	toolscache.Store
	process *process
	inner   *informer
}

// LastStoreSyncResourceVersion is the newest version that the store has seen.
func (v *versionStore) LastStoreSyncResourceVersion() string {
	if v.process.config.claimsNewest {
		return "999999999"
	}
	return strconv.Itoa(v.inner.seen())
}

type podIndexer struct {
	toolscache.Indexer
	inner *informer
}

// ByIndex lists the pods of a node.
func (p *podIndexer) ByIndex(_, value string) ([]any, error) {
	var found []any
	objects := p.inner.all()
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		small := p.inner.shown(objects[key])
		values, err := p.inner.podIndex(small)
		if err != nil {
			return nil, err
		}
		if slices.Contains(values, value) {
			found = append(found, small)
		}
	}
	return found, nil
}

// GetByKey returns a pod.
func (p *podIndexer) GetByKey(key string) (any, bool, error) {
	object := p.inner.all()[key]
	if object == nil {
		return nil, false, nil
	}
	return p.inner.shown(object), true, nil
}

// IndexField adds an index of a controller. An index that several controllers need is added once, as in the operator.
func (p *process) IndexField(_ context.Context, object client.Object, name string, extract client.IndexerFunc) error {
	if indexes := p.informers[kindOf(object)].indexes; indexes[name] == nil {
		indexes[name] = extract
	}
	return nil
}
