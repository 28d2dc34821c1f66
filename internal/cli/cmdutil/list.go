package cmdutil

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/compact"
)

// List returns all objects of a kind, of a namespace if the kind is namespaced and one is given.
func List[T client.Object](ctx context.Context, c client.Reader, namespace string, options ...client.ListOption) ([]T, error) {
	var all []T
	err := Each(ctx, c, namespace, func(item T) { all = append(all, item) }, options...)
	if err != nil {
		return nil, err
	}
	return slices.Clip(all), nil
}

// Each calls visit with every object that List returns, which need not be kept, without what no command reads of a listed object. It reads pages, so
// that a large cluster answers in small pieces.
func Each[T client.Object](ctx context.Context, c client.Reader, namespace string, visit func(T), options ...client.ListOption) error {
	mapping, err := mappingOf[T]()
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	trim := trimmer()
	err = pager.New(pagesOf(c, mapping.GroupVersionKind, namespace, options)).EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if item, ok := object.(T); ok {
			trim(item)
			visit(item)
		}
		return nil
	})
	return Explain(err, "listing "+mapping.Resource.Resource, mapping.Resource.GroupResource())
}

// pagesOf returns what reads the pages of a kind.
func pagesOf(c client.Reader, kind schema.GroupVersionKind, namespace string, options []client.ListOption) pager.ListPageFunc {
	return func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
		page, err := Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err != nil {
			return nil, err
		}
		list, ok := page.(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is not a list", page)
		}
		of := &client.ListOptions{Raw: &raw, Limit: raw.Limit, Continue: raw.Continue, Namespace: namespace}
		return page, c.List(ctx, list, append([]client.ListOption{of}, options...)...)
	}
}

// trimmer returns a function that drops what no command reads of a listed object. Machines of one template share the text of their providerSpec.
func trimmer() func(any) {
	var last []byte
	return func(object any) {
		if accessor, ok := object.(metav1.Object); ok {
			accessor.SetManagedFields(nil)
		}
		switch object := object.(type) {
		case *corev1.Node:
			compact.Node(object)
		case *machinev1beta1.Machine:
			compact.Machine(object)
			object.Status.ProviderStatus, object.Status.Addresses, object.Status.LastOperation = nil, nil, nil
			value := object.Spec.ProviderSpec.Value
			switch {
			case value == nil:
			case bytes.Equal(value.Raw, last):
				value.Raw = last
			default:
				last = value.Raw
			}
		}
	}
}

func mappingOf[T client.Object]() (*meta.RESTMapping, error) {
	object, ok := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if !ok {
		return nil, fmt.Errorf("%s is not a pointer to an object", reflect.TypeFor[T]())
	}
	kinds, _, err := Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	return Mapper().RESTMapping(kinds[0].GroupKind(), kinds[0].Version)
}

// Get reads an object whose namespace and name are set. The error for a missing object suggests names.
func Get[T client.Object](ctx context.Context, c client.Reader, object T) error {
	mapping, err := mappingOf[T]()
	if err != nil {
		return err
	}
	kind, namespace, name := mapping.GroupVersionKind.Kind, object.GetNamespace(), object.GetName()
	switch err := c.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case err == nil:
		return nil
	case client.IgnoreNotFound(err) != nil || IsNotServed(err):
		return Explain(err, fmt.Sprintf("reading %s %s", kind, name), mapping.Resource.GroupResource())
	}
	// Names that cannot be listed are not suggested.
	known, _ := namesOf[T](ctx, c, namespace)
	where := TheCluster
	if namespace != "" {
		where = fmt.Sprintf("namespace %q", namespace)
	}
	return NotFound(kind, name, where, known)
}

// GetNode reads a Node.
func GetNode(ctx context.Context, c client.Reader, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	node.Name = name
	return node, Get(ctx, c, node)
}

// SuggestGroup returns the error for MachineSets that could not be found, or another one if a user has named a NodeGroup without its kind.
func SuggestGroup(ctx context.Context, c client.Reader, err error, chosen ...string) error {
	if err == nil || len(chosen) != 1 {
		return err
	}
	if groups, _ := namesOf[*drover.NodeGroup](ctx, c, ""); slices.Contains(groups, chosen[0]) {
		return fmt.Errorf("there is no MachineSet %q; name the NodeGroup as nodegroup/%[1]s", chosen[0])
	}
	return err
}
