package operator

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/undecodable"
)

// listingCache is a cache that lists, without reflection, the kinds that have thousands of objects or that every reconciliation lists. The List of
// controller-runtime makes an object for each list to find out its kind, and a second list of objects, and then sets each item by reflection
// (https://github.com/kubernetes-sigs/controller-runtime/blob/v0.25.1/pkg/cache/internal/cache_reader.go). Three controllers look up the Machine of a
// Node at each event; with controller-runtime's List, that would allocate 1.9 kB and take most of the time. As in the whole cache, items share what
// they refer to with it.
type listingCache struct {
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
		return listingCache{c, tracker}, err
	}
}

// RemoveInformer drops the cache of a kind.
func (c listingCache) RemoveInformer(ctx context.Context, kind client.Object) error {
	defer c.tracker.Forget(kind)
	return c.Cache.RemoveInformer(ctx, kind)
}

// The kinds, to ask for their informers. They are not changed.
var (
	ofNode                = &corev1.Node{}
	ofMachine             = &machinev1beta1.Machine{}
	ofMachineSet          = &machinev1beta1.MachineSet{}
	ofNodeGroup           = &drover.NodeGroup{}
	ofMaintenance         = &medik8s.NodeMaintenance{}
	ofMaintenanceKubevirt = &kubevirt.NodeMaintenance{}
)

// Get reads an object. If it could not be decoded, Get returns an undecodable.Error, so that no reconciliation that needs it goes on; what is known
// of the object is read all the same.
func (c listingCache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := c.Cache.Get(ctx, key, object, options...); err != nil {
		return err
	}
	return undecodable.Check(object)
}

// List lists what all options select.
func (c listingCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) (err error) {
	filled := false
	switch list := list.(type) {
	case *corev1.NodeList:
		list.Items, filled, err = listItems(ctx, c.Cache, ofNode, options)
	case *machinev1beta1.MachineList:
		list.Items, filled, err = listItems(ctx, c.Cache, ofMachine, options)
	case *machinev1beta1.MachineSetList:
		list.Items, filled, err = listItems(ctx, c.Cache, ofMachineSet, options)
	case *drover.NodeGroupList:
		list.Items, filled, err = listItems(ctx, c.Cache, ofNodeGroup, options)
	case *medik8s.NodeMaintenanceList:
		list.Items, filled, err = listItems(ctx, c.Cache, ofMaintenance, options)
	case *kubevirt.NodeMaintenanceList:
		list.Items, filled, err = listItems(ctx, c.Cache, ofMaintenanceKubevirt, options)
	}
	if filled || err != nil {
		return err
	}
	return c.Cache.List(ctx, list, options...)
}

// listItems returns the objects that options select, unless that is for the cache to say: before it is full, and for options that are seldom used.
func listItems[T any, P interface {
	*T
	client.Object
}](ctx context.Context, from cache.Cache, kind P, options []client.ListOption) (items []T, listed bool, err error) {
	index, value, selects := indexOf(options)
	if !selects {
		return nil, false, nil
	}
	informer, err := from.GetInformer(ctx, kind)
	if err != nil {
		return nil, false, fmt.Errorf("listing %T: %w", kind, err)
	}
	indexed, ok := informer.(toolscache.SharedIndexInformer)
	if !ok || !informer.HasSynced() {
		return nil, false, nil
	}
	var objects []any
	if index == "" {
		objects = indexed.GetIndexer().List()
	} else if objects, err = indexed.GetIndexer().ByIndex(index, value); err != nil {
		return nil, false, fmt.Errorf("listing %T: %w", kind, err)
	}
	if len(objects) == 0 {
		return nil, true, nil
	}
	items = make([]T, len(objects))
	for i, object := range objects {
		item, ok := object.(P)
		if !ok {
			return nil, false, fmt.Errorf("listing %T: the cache has a %T", kind, object)
		}
		items[i] = *item
	}
	return items, true, nil
}

// indexOf returns the index of the cache that has what options select, and the value in it; no index for all objects. It reports false for options
// other than a namespace or one field.
func indexOf(options []client.ListOption) (index, value string, selects bool) {
	if len(options) == 0 {
		return "", "", true
	}
	if len(options) > 1 {
		return "", "", false
	}
	switch option := options[0].(type) {
	case client.InNamespace:
		return toolscache.NamespaceIndex, string(option), option != ""
	case client.MatchingFields:
		for field, value := range option {
			return indexName + field, allNamespaces + value, len(option) == 1
		}
	}
	return "", "", false
}
