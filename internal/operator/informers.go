package operator

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/drover-io/drover/internal/undecodable"
)

// informerFactory makes the informers of the cache. Informers of custom resources keep working if an object cannot be decoded (package undecodable).
// Built-in kinds need no such care, because the API server decodes them itself.
type informerFactory struct {
	scheme *runtime.Scheme
	config *rest.Config
	codecs serializer.CodecFactory
	// http sends the requests of all custom resources, except the watch of Machines. Machines are numerous, so their watch has a connection of its own.
	http    *http.Client
	options cache.Options
	tracker *undecodable.Tracker
}

func newInformerFactory(
	config *rest.Config, scheme *runtime.Scheme, options cache.Options, tracker *undecodable.Tracker,
) (*informerFactory, error) {
	f := &informerFactory{scheme: scheme, config: config, codecs: serializer.NewCodecFactory(scheme), options: options, tracker: tracker}
	var err error
	if f.http, err = rest.HTTPClientFor(ownConnection(config)); err != nil {
		return nil, fmt.Errorf("creating the client of custom resources: %w", err)
	}
	return f, nil
}

// newInformer makes an informer, as cache.Options.NewInformer does.
func (f *informerFactory) newInformer(
	from toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	source, err := f.source(kind)
	if err != nil {
		from = &toolscache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, err }}
	}
	if source == nil {
		return toolscache.NewSharedIndexInformer(from, kind, resync, indexers)
	}
	informer := toolscache.NewSharedIndexInformer(source.ListWatch(), kind, resync, indexers)
	// It fails for an informer that has stopped.
	_, _ = informer.AddEventHandler(f.tracker.Handler())
	return informer
}

// source returns what reads a custom resource; nil for another kind.
func (f *informerFactory) source(kind runtime.Object) (*undecodable.Source, error) {
	object, ok := kind.(client.Object)
	if _, partial := kind.(*metav1.PartialObjectMetadata); !ok || partial {
		return nil, nil
	}
	gvk, err := apiutil.GVKForObject(kind, f.scheme)
	if err != nil || clientgoscheme.Scheme.Recognizes(gvk) {
		return nil, err
	}
	mapping, err := newMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	lists, err := f.client(gvk, f.config, f.http)
	if err != nil {
		return nil, err
	}
	source := &undecodable.Source{
		Lists: lists, Watches: lists, Resource: mapping.Resource.Resource, Namespace: f.namespaceOf(object), Decode: f.decoder(gvk),
	}
	if !isMachine(gvk) {
		return source, nil
	}
	config := ownConnection(f.config)
	own, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	source.Watches, err = f.client(gvk, config, own)
	return source, err
}

func (f *informerFactory) client(gvk schema.GroupVersionKind, config *rest.Config, http *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return apiutil.RESTClientForGVK(gvk, true, false, config, f.codecs, http)
}

// namespaceOf returns the namespace that the cache of a kind is limited to; empty for all.
func (f *informerFactory) namespaceOf(kind client.Object) string {
	for object, by := range f.options.ByObject {
		if by.Field != nil && reflect.TypeOf(object) == reflect.TypeOf(kind) {
			namespace, _ := by.Field.RequiresExactMatch("metadata.namespace")
			return namespace
		}
	}
	return ""
}

func isMachine(gvk schema.GroupVersionKind) bool {
	return gvk == machinev1beta1.GroupVersion.WithKind("Machine")
}

// decoder returns what decodes the objects of a kind.
func (f *informerFactory) decoder(gvk schema.GroupVersionKind) func(text []byte) (client.Object, error) {
	return func(text []byte) (client.Object, error) {
		object, err := f.scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		into, ok := object.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%T is no object", object)
		}
		return into, undecodable.Decode(text, into)
	}
}
