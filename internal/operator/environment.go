package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/provider"
)

// serving returns the providers that serve Machines, of those that the program has. A name that no provider has is an error, as are options for one
// that does not serve.
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

// Environment returns what the providers of machines work with.
func Environment(mgr manager.Manager) (provider.Environment, error) {
	// The manager's own clients know the kinds alone that Drover uses. A provider may use any, so this one asks the API server which there are.
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return provider.Environment{}, fmt.Errorf("creating the client of the providers: %w", err)
	}
	return provider.Environment{Config: mgr.GetConfig(), Client: &providerClient{Client: direct, cache: mgr.GetCache()}, Live: direct}, nil
}

// providerClient reads Machines, MachineSets and Nodes from Drover's cache, and everything else from the API server. The cache hands out its own
// objects, which must not be changed: a provider gets copies.
type providerClient struct {
	client.Client
	cache client.Reader
}

// Get reads an object.
func (c *providerClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	var unshare func()
	switch typed := object.(type) {
	case *machinev1beta1.Machine:
		unshare = func() { *typed = *typed.DeepCopy() }
	case *machinev1beta1.MachineSet:
		unshare = func() { *typed = *typed.DeepCopy() }
	case *corev1.Node:
		unshare = func() { *typed = *typed.DeepCopy() }
	default:
		return c.Client.Get(ctx, key, object, options...)
	}
	if err := c.cache.Get(ctx, key, object, options...); err != nil {
		return err
	}
	unshare()
	return nil
}

// List reads a list.
func (c *providerClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	var unshare func()
	switch typed := list.(type) {
	case *machinev1beta1.MachineList:
		unshare = func() { *typed = *typed.DeepCopy() }
	case *machinev1beta1.MachineSetList:
		unshare = func() { *typed = *typed.DeepCopy() }
	case *corev1.NodeList:
		unshare = func() { *typed = *typed.DeepCopy() }
	default:
		return c.Client.List(ctx, list, options...)
	}
	if err := c.cache.List(ctx, list, options...); err != nil {
		return err
	}
	unshare()
	return nil
}
