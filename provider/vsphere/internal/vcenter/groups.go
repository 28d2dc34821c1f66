package vcenter

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// clusterLocks let one change of the groups of a cluster run at a time: the whole list of members is read and written.
type clusterLocks struct {
	mu    sync.Mutex
	locks map[types.ManagedObjectReference]*sync.Mutex
}

func (c *clusterLocks) of(cluster types.ManagedObjectReference) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.locks == nil {
		c.locks = map[types.ManagedObjectReference]*sync.Mutex{}
	}
	if c.locks[cluster] == nil {
		c.locks[cluster] = &sync.Mutex{}
	}
	return c.locks[cluster]
}

// changeGroup adds virtual machines to a group, or removes them.
func (v *VCenter) changeGroup(
	ctx context.Context, change group, refs []types.ManagedObjectReference,
) (map[types.ManagedObjectReference]error, error) {
	lock := v.clusters.of(change.cluster)
	lock.Lock()
	defer lock.Unlock()
	ctx, cancel := context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	var task *types.ManagedObjectReference
	err := v.brief(ctx, func(ctx context.Context, current *login) (err error) {
		task, err = reconfigureGroup(ctx, current, change, refs)
		return err
	})
	if err == nil && task != nil {
		_, err = v.awaitTask(ctx, *task, "")
	}
	if err != nil {
		return nil, fmt.Errorf("changing the members of VM group %s: %w", change.name, err)
	}
	return nil, nil
}

// reconfigureGroup starts to change the members of a group; nil if they are right already.
func reconfigureGroup(
	ctx context.Context, current *login, change group, refs []types.ManagedObjectReference,
) (*types.ManagedObjectReference, error) {
	if change.cluster.Type != "ClusterComputeResource" {
		// The workspace's resource pool belongs to a host without a cluster. Only clusters have groups.
		return nil, ErrNoGroup
	}
	var cluster mo.ClusterComputeResource
	collector := property.DefaultCollector(current.client)
	if err := collector.RetrieveOne(ctx, change.cluster, []string{"configurationEx"}, &cluster); err != nil {
		return nil, err
	}
	config, _ := cluster.ConfigurationEx.(*types.ClusterConfigInfoEx)
	if config == nil {
		return nil, ErrNoGroup
	}
	var existing *types.ClusterVmGroup
	for _, other := range config.Group {
		if vms, ok := other.(*types.ClusterVmGroup); ok && vms.Name == change.name {
			existing = vms
		}
	}
	if existing == nil {
		return nil, ErrNoGroup
	}
	changed := *existing
	changed.Vm = slices.DeleteFunc(slices.Clone(existing.Vm), func(ref types.ManagedObjectReference) bool { return slices.Contains(refs, ref) })
	if !change.remove {
		changed.Vm = append(changed.Vm, refs...)
	}
	if len(changed.Vm) == len(existing.Vm) {
		return nil, nil
	}
	response, err := methods.ReconfigureComputeResource_Task(ctx, current.client, &types.ReconfigureComputeResource_Task{
		This: change.cluster, Modify: true,
		Spec: &types.ClusterConfigSpecEx{GroupSpec: []types.ClusterGroupSpec{{
			ArrayUpdateSpec: types.ArrayUpdateSpec{Operation: types.ArrayUpdateOperationEdit}, Info: &changed,
		}}},
	})
	if err != nil {
		return nil, err
	}
	return &response.Returnval, nil
}
