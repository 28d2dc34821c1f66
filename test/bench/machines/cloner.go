package main

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/drover-io/drover/test/vcenter"
)

// cloner clones and destroys virtual machines, and does nothing else: it neither powers on nor tags, and writes nothing to the API server.
type cloner struct {
	template *object.VirtualMachine
	folder   *object.Folder
	pool     *object.ResourcePool
	store    *object.Datastore
	// vms are the clones, by their numbers.
	vms []types.ManagedObjectReference
}

// newCloner looks up what so many clones are made of.
func newCloner(ctx context.Context, site *vcenter.Site, count int) (*cloner, error) {
	client, err := site.VIM(ctx)
	if err != nil {
		return nil, err
	}
	finder := find.NewFinder(client)
	datacenter, err := finder.Datacenter(ctx, vcenter.Datacenter)
	if err != nil {
		return nil, err
	}
	finder.SetDatacenter(datacenter)
	c := &cloner{vms: make([]types.ManagedObjectReference, count)}
	if c.template, err = finder.VirtualMachine(ctx, vcenter.Template); err != nil {
		return nil, err
	}
	if c.folder, err = finder.DefaultFolder(ctx); err != nil {
		return nil, err
	}
	if c.pool, err = finder.ResourcePool(ctx, vcenter.Pool); err != nil {
		return nil, err
	}
	c.store, err = finder.Datastore(ctx, vcenter.Datastore)
	return c, err
}

// each does something for so many numbers, as many at a time as the provider clones.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clonesAtOnce)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// clone clones the template.
func (c *cloner) clone(ctx context.Context, i int) error {
	task, err := c.template.Clone(ctx, c.folder, fmt.Sprintf("floor-%d", i), types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{
			Folder: types.NewReference(c.folder.Reference()), Pool: types.NewReference(c.pool.Reference()),
			Datastore: types.NewReference(c.store.Reference()),
		},
		Config: &types.VirtualMachineConfigSpec{InstanceUuid: string(uuid.NewUUID())},
	})
	if err != nil {
		return err
	}
	info, err := task.WaitForResult(ctx)
	if err != nil {
		return err
	}
	ref, ok := info.Result.(types.ManagedObjectReference)
	if !ok {
		return fmt.Errorf("the clone ended with %v", info.Result)
	}
	c.vms[i] = ref
	return nil
}

// destroy destroys a clone.
func (c *cloner) destroy(ctx context.Context, i int) error {
	task, err := object.NewVirtualMachine(c.template.Client(), c.vms[i]).Destroy(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}
