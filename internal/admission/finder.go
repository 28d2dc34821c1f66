package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
)

// Finder finds the NodeMaintenances of a node, in both groups.
type Finder struct {
	// Cache is read for the groups that it has completely, Live for the others: a group may be disabled, or its cache may not be synced.
	Cache, Live client.Reader
	// Cached reports whether the cache has all NodeMaintenances of a capability.
	Cached func(capability string) bool
}

// HasMaintenance reports whether a NodeMaintenance names a node. A NodeMaintenance that is being deleted counts too.
func (f *Finder) HasMaintenance(ctx context.Context, node string) (bool, error) {
	for _, group := range maintenance.Groups() {
		if found, err := f.findIn(ctx, group, node); ignoreAbsent(err) != nil || found {
			return found, err
		}
	}
	return false, nil
}

func (f *Finder) findIn(ctx context.Context, group *maintenance.Group, node string) (bool, error) {
	objects, err := f.list(ctx, group)
	if err != nil {
		return false, err
	}
	for _, object := range objects {
		if object.GetSpec().NodeName != node {
			continue
		}
		// The cache may lag: a NodeMaintenance that has just been deleted does not block the next one.
		current, err := group.GetLive(ctx, f.Live, object.GetName())
		switch {
		case ignoreAbsent(err) != nil:
			return false, fmt.Errorf("reading NodeMaintenance %s: %w", object.GetName(), err)
		case err == nil && current.GetSpec().NodeName == node:
			return true, nil
		}
	}
	return false, nil
}

func (f *Finder) list(ctx context.Context, group *maintenance.Group) ([]plan.Object, error) {
	if f.Cached(group.Name) {
		return group.List(ctx, f.Cache)
	}
	return group.ListLive(ctx, f.Live)
}

// ignoreAbsent drops the error that there is no such object, or no such API.
func ignoreAbsent(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
