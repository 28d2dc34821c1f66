package simulation

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// controllerCache is the cache of a process as one controller reads it.
type controllerCache struct {
	ctrlcache.Cache
	process    *process
	controller string
}

// passOf returns the ID of the reconciliation that a context belongs to; empty for handlers, and for the drain engine's own work.
func passOf(ctx context.Context) string { return string(controller.ReconcileIDFromContext(ctx)) }

// keySink is a logger that drops its lines, and keeps what the controllers say of the object that is reconciled.
type keySink struct {
	logr.LogSink
	key string
}

// Init does nothing.
func (keySink) Init(logr.RuntimeInfo) {}

// Enabled is false at all levels.
func (keySink) Enabled(int) bool { return false }

// Error drops a line.
func (keySink) Error(error, string, ...any) {}

// WithName keeps no names.
func (s keySink) WithName(string) logr.LogSink { return s }

// WithValues keeps all values but the random ID of a reconciliation.
func (s keySink) WithValues(values ...any) logr.LogSink {
	if len(values) > 0 && values[0] != "reconcileID" {
		s.key += fmt.Sprint(values...) + " "
	}
	return s
}

// reconciledObject returns the key of the object whose reconciliation a context belongs to; empty for other contexts.
func reconciledObject(ctx context.Context) string {
	sink, _ := log.FromContext(ctx).GetSink().(keySink)
	return sink.key
}

// stop holds the first read of each pass, so that passes begin one at a time, and in some seeds all others.
func (c *controllerCache) stop(ctx context.Context, what string) error {
	pass := passOf(ctx)
	if pass == "" {
		return nil
	}
	p := c.process
	p.mu.Lock()
	item, begun := p.items[pass]
	if !begun {
		item = what
		p.items[pass] = what
	}
	p.mu.Unlock()
	if begun && !p.config.slowReads {
		return nil
	}
	return p.gates.pass(ctx, &call{controller: c.controller, pass: pass, item: item, what: "read " + what})
}

// Get reads from the cache. What it returns is the cache's own.
func (c *controllerCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	k := kindOf(object)
	name := keyFor(key.Namespace, key.Name)
	if err := c.stop(ctx, k.name+" "+name); err != nil {
		return err
	}
	found := c.process.informers[k].all()[name]
	if found == nil {
		return c.process.server.notFound(k, name)
	}
	c.process.noteGet(passOf(ctx), found)
	return assign(object, found)
}

// List reads from the cache.
func (c *controllerCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	k := kindOf(list)
	if err := c.stop(ctx, "list of "+k.name); err != nil {
		return err
	}
	in := c.process.informers[k]
	c.process.noteList(passOf(ctx), k)
	return fill(list, in.all(), in.indexes, options)
}

// GetInformer returns the informer of a kind.
func (c *controllerCache) GetInformer(_ context.Context, object client.Object, _ ...ctrlcache.InformerGetOption) (ctrlcache.Informer, error) {
	return &controllerInformer{process: c.process, controller: c.controller, inner: c.process.informers[kindOf(object)]}, nil
}

// assign copies an object into another one. If the target has only metadata, assign copies the metadata.
func assign(to, from client.Object) error {
	if partial, ok := to.(*metav1.PartialObjectMetadata); ok {
		source, ok := field(from, "ObjectMeta").Interface().(metav1.ObjectMeta)
		if !ok {
			return fmt.Errorf("%T has no metadata", from)
		}
		partial.ObjectMeta = *source.DeepCopy()
		return nil
	}
	target, source := reflect.ValueOf(to), reflect.ValueOf(from)
	if target.Type() != source.Type() {
		return fmt.Errorf("%T was asked for, there is %T", to, from)
	}
	target.Elem().Set(source.Elem())
	return nil
}

// fill puts what the options select into a list.
func fill(list client.ObjectList, objects map[string]client.Object, indexes map[string]client.IndexerFunc, options []client.ListOption) error {
	var wanted client.ListOptions
	wanted.ApplyOptions(options)
	var found []runtime.Object
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		object := objects[key]
		if wanted.Namespace != "" && object.GetNamespace() != wanted.Namespace ||
			wanted.LabelSelector != nil && !wanted.LabelSelector.Matches(labels.Set(object.GetLabels())) {
			continue
		}
		selected, err := indexed(object, indexes, &wanted)
		if err != nil {
			return err
		}
		if selected {
			found = append(found, object)
		}
	}
	if partial, ok := list.(*metav1.PartialObjectMetadataList); ok {
		for _, object := range found {
			item := metav1.PartialObjectMetadata{}
			typed, ok := object.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no object", object)
			}
			if err := assign(&item, typed); err != nil {
				return err
			}
			partial.Items = append(partial.Items, item)
		}
		return nil
	}
	return meta.SetList(list, found)
}

func indexed(object client.Object, indexes map[string]client.IndexerFunc, wanted *client.ListOptions) (bool, error) {
	if wanted.FieldSelector == nil {
		return true, nil
	}
	for _, requirement := range wanted.FieldSelector.Requirements() {
		extract := indexes[requirement.Field]
		if extract == nil {
			return false, fmt.Errorf("there is no index %s", requirement.Field)
		}
		if !slices.Contains(extract(object), requirement.Value) {
			return false, nil
		}
	}
	return true, nil
}
