package operator

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/provider"
)

// serving returns the providers of the program that serve Machines. A name that no provider has is an error. So are options for a provider that does
// not serve.
func serving(all []provider.Provider, machines v1alpha1.Machines) ([]provider.Provider, error) {
	var known []string
	for _, p := range all {
		known = append(known, p.Name)
	}
	for i, name := range machines.Providers {
		if name = strings.TrimPrefix(name, "-"); name != "*" && !slices.Contains(known, name) {
			return nil, field.NotSupported(field.NewPath("machines", "providers").Index(i), name, known)
		}
	}
	serves := func(p provider.Provider) bool {
		return config.Enabled(machines.Providers, p.Name) && (!p.OnRequest || slices.Contains(machines.Providers, p.Name))
	}
	for _, name := range slices.Sorted(maps.Keys(machines.ProviderOptions)) {
		if !slices.ContainsFunc(all, func(p provider.Provider) bool { return p.Name == name && serves(p) }) {
			path := field.NewPath("machines", "providerOptions").Key(name)
			return nil, field.Invalid(path, name, "no provider of this name serves; name it in machines.providers")
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(p provider.Provider) bool { return !serves(p) }), nil
}

// newClient returns a client of the API server for every kind. The manager's own clients know only the kinds that Drover uses.
func newClient(mgr manager.Manager) (client.Client, error) {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return direct, nil
}

// Environment returns what the providers of machines work with.
func Environment(mgr manager.Manager) (provider.Environment, error) {
	direct, err := newClient(mgr)
	if err != nil {
		return provider.Environment{}, err
	}
	return provider.Environment{
		Config: mgr.GetConfig(), Client: &providerClient{Client: direct, cache: mgr.GetCache()}, Live: direct, Metrics: metrics.Registry,
	}, nil
}

// providerClient reads Machines, MachineSets and Nodes from Drover's cache, and everything else from the API server. The cache hands out its own
// objects, which must not be changed: a provider gets copies.
type providerClient struct {
	client.Client
	cache client.Reader
}

// Get reads an object.
func (c *providerClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	switch object.(type) {
	case *machinev1beta1.Machine, *machinev1beta1.MachineSet, *corev1.Node:
		return unshare(object, c.cache.Get(ctx, key, object, options...))
	}
	return c.Client.Get(ctx, key, object, options...)
}

// List reads a list.
func (c *providerClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *machinev1beta1.MachineList, *machinev1beta1.MachineSetList, *corev1.NodeList:
		return unshare(list, c.cache.List(ctx, list, options...))
	}
	return c.Client.List(ctx, list, options...)
}

// unshare replaces an object that was read from the cache by a copy, unless the read has failed.
func unshare(object runtime.Object, err error) error {
	if err == nil {
		reflect.ValueOf(object).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
	}
	return err
}
