package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// live keeps the objects of a survey up to date by watching them.
type live struct {
	informers []cache.SharedIndexInformer
	// changed holds at most one notice, however much has changed since it was last read.
	changed chan struct{}
	// failed holds the first failure that will not go away by trying again; trouble the last one that may.
	failed, trouble chan error
}

// watchObjects starts to watch. Connections that break are made again until the context ends.
func watchObjects(ctx context.Context, c client.WithWatch, namespace string) (*live, error) {
	l := &live{changed: make(chan struct{}, 1), failed: make(chan error, 1), trouble: make(chan error, 1)}
	for _, kind := range []struct {
		listed
		object client.Object
	}{{machineSets, &machinev1beta1.MachineSet{}}, {machines, &machinev1beta1.Machine{}}, {nodes, &corev1.Node{}}} {
		in := namespace
		if !kind.namespaced {
			in = ""
		}
		informer := cache.NewSharedIndexInformer(listerWatcher(c, kind.listed, in), kind.object, 0, cache.Indexers{})
		if err := l.prepare(informer, kind.resource); err != nil {
			return nil, err
		}
		l.informers = append(l.informers, informer)
	}
	for _, informer := range l.informers {
		go informer.RunWithContext(ctx)
	}
	return l, l.awaitSync(ctx)
}

func listerWatcher(c client.WithWatch, kind listed, namespace string) cache.ListerWatcher {
	options := func(raw metav1.ListOptions) *client.ListOptions {
		return &client.ListOptions{Raw: &raw, Limit: raw.Limit, Continue: raw.Continue, Namespace: namespace}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			page := kind.empty()
			return page, c.List(ctx, page, options(raw))
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, kind.empty(), options(raw))
		},
	}
}

func (l *live) prepare(informer cache.SharedIndexInformer, resource string) error {
	notice := func(any) { l.notify() }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: notice, UpdateFunc: func(_, after any) { notice(after) }, DeleteFunc: notice,
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", resource, err)
	}
	if err := informer.SetTransform(slim); err != nil {
		return fmt.Errorf("watching %s: %w", resource, err)
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		l.report(ctx, resource, err)
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", resource, err)
	}
	return nil
}

// report sorts the failures of a watch. Most the informer gets over by itself: a restarting API server, an expired version.
func (l *live) report(ctx context.Context, resource string, err error) {
	into := l.trouble
	switch {
	case ctx.Err() != nil, errors.Is(err, io.EOF), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		return
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), missing(err):
		into = l.failed
	}
	select {
	case into <- explained(err, "watching "+resource, resource):
	default:
	}
}

// slim drops what no survey looks at; a Node is mostly that.
func slim(object any) (any, error) {
	if accessor, ok := object.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	switch object := object.(type) {
	case *corev1.Node:
		object.Status = corev1.NodeStatus{}
	case *machinev1beta1.Machine:
		object.Spec.ProviderSpec, object.Status.ProviderStatus = machinev1beta1.ProviderSpec{}, nil
	}
	return object, nil
}

func (l *live) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *live) awaitSync(ctx context.Context) error {
	for _, informer := range l.informers {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-l.failed:
			return err
		case <-informer.HasSyncedChecker().Done():
		}
	}
	return nil
}

// objects are the objects as they are now. They are the informers' own and must not be changed.
func (l *live) objects() plan.Objects {
	objects := plan.Objects{Nodes: map[string]*corev1.Node{}}
	for _, informer := range l.informers {
		for _, object := range informer.GetStore().List() {
			switch object := object.(type) {
			case *machinev1beta1.MachineSet:
				objects.Sets = append(objects.Sets, object)
			case *machinev1beta1.Machine:
				objects.Machines = append(objects.Machines, object)
			case *corev1.Node:
				objects.Nodes[object.Name] = object
			}
		}
	}
	return objects
}
