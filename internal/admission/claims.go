package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
)

// Claims finds out whether a NodeMaintenance of either group names a node.
type Claims struct {
	// Cache is read for the groups that it has in full, Live for the others: a group may be switched off, or its cache still fill.
	Cache, Live client.Reader
	// Cached tells whether the cache has all NodeMaintenances of the capability of that name.
	Cached func(capability string) bool
}

// group is one API group as it is read here.
type group struct {
	capability string
	object     client.Object
	list       client.ObjectList
}

func groups() []group {
	return []group{
		{maintenance.Medik8s().Name, &medik8s.NodeMaintenance{}, &medik8s.NodeMaintenanceList{}},
		{maintenance.Kubevirt().Name, &kubevirt.NodeMaintenance{}, &kubevirt.NodeMaintenanceList{}},
	}
}

// names tells whether an object is a NodeMaintenance that names a node.
func names(object runtime.Object, node string) bool {
	switch typed := object.(type) {
	case *medik8s.NodeMaintenance:
		return typed.Spec.NodeName == node
	case *kubevirt.NodeMaintenance:
		return typed.Spec.NodeName == node
	}
	return false
}

// Claimed tells whether a NodeMaintenance names a node, also one that is being deleted.
func (c *Claims) Claimed(ctx context.Context, node string) (bool, error) {
	for _, g := range groups() {
		claimed, err := c.claimedIn(ctx, g, node)
		if err != nil {
			return false, fmt.Errorf("looking for another NodeMaintenance: %w", err)
		}
		if claimed {
			return true, nil
		}
	}
	return false, nil
}

func (c *Claims) claimedIn(ctx context.Context, g group, node string) (bool, error) {
	reader := c.Live
	if c.Cached(g.capability) {
		reader = c.Cache
	}
	if err := reader.List(ctx, g.list); err != nil {
		return false, unlessAbsent(err)
	}
	var found []string
	err := meta.EachListItem(g.list, func(object runtime.Object) error {
		if names(object, node) {
			if described, err := meta.Accessor(object); err == nil {
				found = append(found, described.GetName())
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	// The cache may be behind: one that was deleted a moment ago does not stand in the way of the next.
	for _, name := range found {
		if err := c.Live.Get(ctx, types.NamespacedName{Name: name}, g.object); unlessAbsent(err) != nil {
			return false, err
		} else if err == nil && names(g.object, node) {
			return true, nil
		}
	}
	return false, nil
}

// unlessAbsent drops the error that there is no such object, or no such API.
func unlessAbsent(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
