package vcenter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/clock"
)

// keepLookups is how long the answer of a lookup counts. An error counts for keepFailed and five times as long as it took, at most for
// keepFailedMost: workers must not wait for the same answer one after another, least of all where there is none.
const keepLookups, keepFailed, keepFailedMost = 10 * time.Minute, 5 * time.Second, time.Minute

// paths are the inventory paths of objects that are looked up by name, relative to the path of their datacenter.
var paths = map[string]string{
	"template": "vm/FOLDER/NAME", "folder": "vm/FOLDER", "datastore": "datastore/NAME", "resource pool": "host/CLUSTER/Resources/POOL",
}

// NotUniqueError is the error of a name in a workspace that no object has, or several have.
type NotUniqueError struct {
	// Kind is what was looked for: template, folder, datastore, resource pool, datacenter.
	Kind string
	// Several reports whether there are several.
	Several bool
}

// Error returns what is wrong.
func (e *NotUniqueError) Error() string {
	if e.Several && e.Kind == "datacenter" {
		return "multiple datacenters found, specify one in config"
	}
	if e.Several {
		return fmt.Sprintf("multiple %ss found, specify one in config: its full inventory path picks one, as in /DATACENTER/%s", e.Kind, paths[e.Kind])
	}
	return e.Kind + " not found, specify valid value"
}

// NetworkError is the error of a network that the cluster of the resource pool does not have.
type NetworkError struct {
	// Name is the name of the network.
	Name string
}

// Error returns what is wrong.
func (e *NetworkError) Error() string { return fmt.Sprintf("unable to get network for %q", e.Name) }

// inventory keeps the answers of lookups for a while.
type inventory struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	known map[string]lookup
}

// lookup is the answer to one; while it is asked for, others wait.
type lookup struct {
	once func() (any, error)
	// It was begun at this time, and counts until that one.
	begun, until time.Time
	failed       bool
}

func newInventory(clock clock.PassiveClock) *inventory {
	return &inventory{clock: clock, known: map[string]lookup{}}
}

// cached returns the answer of a lookup. Concurrent callers share one lookup, and its answer is kept. If the lookup was canceled with another caller,
// it is made again. A lookup that takes too long is an error like any other.
func cached[T any](i *inventory, key string, find func() (T, error)) (T, error) {
	for {
		isOwn := false
		known := i.lookup(key, func() (any, error) {
			isOwn = true
			return find()
		})
		answer, err := known.once()
		ended := errors.Is(err, context.Canceled)
		switch {
		case ended:
			i.forget(key)
		case err != nil:
			i.failed(key)
		}
		if !ended || isOwn {
			value, _ := answer.(T)
			return value, err
		}
	}
}

// lookup returns the lookup with a key, which is begun if there is none that counts.
func (i *inventory) lookup(key string, find func() (any, error)) lookup {
	i.mu.Lock()
	defer i.mu.Unlock()
	known, found := i.known[key]
	if !found || !i.clock.Now().Before(known.until) {
		i.forgetOld()
		now := i.clock.Now()
		known = lookup{once: sync.OnceValues(find), begun: now, until: now.Add(keepLookups)}
		i.known[key] = known
	}
	return known
}

// forget has a lookup made again.
func (i *inventory) forget(key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.known, key)
}

// failed has a lookup made again after a while.
func (i *inventory) failed(key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, found := i.known[key]; found && !known.failed {
		now := i.clock.Now()
		known.failed, known.until = true, now.Add(min(keepFailed+5*now.Sub(known.begun), keepFailedMost))
		i.known[key] = known
	}
}

// forgetOld removes what does not count any more: authors of Machines choose the keys.
func (i *inventory) forgetOld() {
	now := i.clock.Now()
	maps.DeleteFunc(i.known, func(_ string, known lookup) bool { return !now.Before(known.until) })
}

// forgetAll has everything looked up anew: something that was found has gone.
func (i *inventory) forgetAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.known)
}

// Workspace is where virtual machines are created, by names or inventory paths; what is empty is the only one or the default one.
type Workspace struct {
	Datacenter, Folder, Datastore, ResourcePool string
}

// Place is a Workspace in the terms of the vCenter.
type Place struct {
	// Datacenter, Folder, Datastore and Pool are the objects that the workspace names.
	Datacenter, Folder, Datastore, Pool types.ManagedObjectReference
	// Cluster is the compute resource that the pool is of.
	Cluster types.ManagedObjectReference
}

// Place looks a workspace up.
func (v *VCenter) Place(ctx context.Context, workspace Workspace) (*Place, error) {
	return cached(v.inventory, fmt.Sprintf("place %+v", workspace), func() (place *Place, err error) {
		err = v.brief(ctx, func(ctx context.Context, current *login) error {
			place, err = findPlace(ctx, current, workspace)
			return err
		})
		return place, err
	})
}

func findPlace(ctx context.Context, current *login, workspace Workspace) (*Place, error) {
	finder := find.NewFinder(current.client, false)
	datacenter, err := finder.DatacenterOrDefault(ctx, workspace.Datacenter)
	if err != nil {
		return nil, notUnique("datacenter", err)
	}
	finder.SetDatacenter(datacenter)
	folder, err := finder.FolderOrDefault(ctx, workspace.Folder)
	if err != nil {
		return nil, notUnique("folder", err)
	}
	datastore, err := finder.DatastoreOrDefault(ctx, workspace.Datastore)
	if err != nil {
		return nil, notUnique("datastore", err)
	}
	pool, err := finder.ResourcePoolOrDefault(ctx, workspace.ResourcePool)
	if err != nil {
		return nil, notUnique("resource pool", err)
	}
	var owner mo.ResourcePool
	if err := property.DefaultCollector(current.client).RetrieveOne(ctx, pool.Reference(), []string{"owner"}, &owner); err != nil {
		return nil, fmt.Errorf("reading resource pool %s: %w", workspace.ResourcePool, err)
	}
	return &Place{
		Datacenter: datacenter.Reference(), Folder: folder.Reference(), Datastore: datastore.Reference(), Pool: pool.Reference(), Cluster: owner.Owner,
	}, nil
}

// notUnique translates the errors of a lookup. Any other error says nothing of the name.
func notUnique(kind string, err error) error {
	var several *find.MultipleFoundError
	var defaults *find.DefaultMultipleFoundError
	var none *find.NotFoundError
	var noDefault *find.DefaultNotFoundError
	switch {
	case errors.As(err, &several), errors.As(err, &defaults):
		return &NotUniqueError{Kind: kind, Several: true}
	case errors.As(err, &none), errors.As(err, &noDefault):
		return &NotUniqueError{Kind: kind}
	}
	return fmt.Errorf("looking up the %s: %w", kind, err)
}

// Template is what virtual machines are cloned from.
type Template struct {
	// Ref is the virtual machine.
	Ref types.ManagedObjectReference
	// Version is its hardware version, such as vmx-19; empty if the vCenter does not say.
	Version string
	// Devices are its devices.
	Devices object.VirtualDeviceList
	// Snapshots has them by name, and Current is the current one; nil for none.
	Snapshots map[string]types.ManagedObjectReference
	Current   *types.ManagedObjectReference
	// CPUs, MemoryMiB and DiskGiB are its size.
	CPUs      int32
	MemoryMiB int64
	DiskGiB   int64
}

// Template looks a template up by name, inventory path or instance UUID, in a datacenter.
func (v *VCenter) Template(ctx context.Context, place *Place, name string) (*Template, error) {
	return cached(v.inventory, fmt.Sprintf("template %s %s", place.Datacenter.Value, name), func() (template *Template, err error) {
		err = v.brief(ctx, func(ctx context.Context, current *login) error {
			template, err = findTemplate(ctx, current, place, name)
			return err
		})
		return template, err
	})
}

func findTemplate(ctx context.Context, current *login, place *Place, name string) (*Template, error) {
	ref, err := templateRef(ctx, current, place, name)
	if err != nil {
		return nil, err
	}
	var vm mo.VirtualMachine
	properties := []string{"config.version", "config.hardware", "snapshot"}
	if err := property.DefaultCollector(current.client).RetrieveOne(ctx, ref, properties, &vm); err != nil {
		return nil, fmt.Errorf("reading template %s: %w", name, err)
	}
	template := &Template{Ref: ref, Snapshots: map[string]types.ManagedObjectReference{}}
	if vm.Config != nil {
		template.Version, template.Devices = vm.Config.Version, object.VirtualDeviceList(vm.Config.Hardware.Device)
		template.CPUs, template.MemoryMiB = vm.Config.Hardware.NumCPU, int64(vm.Config.Hardware.MemoryMB)
	}
	if disks := template.Devices.SelectByType((*types.VirtualDisk)(nil)); len(disks) > 0 {
		if disk, ok := disks[0].(*types.VirtualDisk); ok {
			template.DiskGiB = disk.CapacityInKB >> 20
		}
	}
	if vm.Snapshot != nil {
		template.Current = vm.Snapshot.CurrentSnapshot
		template.addSnapshots(vm.Snapshot.RootSnapshotList)
	}
	return template, nil
}

func (t *Template) addSnapshots(tree []types.VirtualMachineSnapshotTree) {
	for i := range tree {
		t.Snapshots[tree[i].Name] = tree[i].Snapshot
		t.addSnapshots(tree[i].ChildSnapshotList)
	}
}

func templateRef(ctx context.Context, current *login, place *Place, name string) (ref types.ManagedObjectReference, err error) {
	datacenter := object.NewDatacenter(current.client, place.Datacenter)
	if _, err := uuid.Parse(name); err == nil {
		found, err := object.NewSearchIndex(current.client).FindByUuid(ctx, datacenter, name, true, types.NewBool(true))
		if err != nil {
			return ref, fmt.Errorf("looking up the template %s: %w", name, err)
		}
		if found != nil {
			return found.Reference(), nil
		}
	}
	finder := find.NewFinder(current.client, false).SetDatacenter(datacenter)
	if !strings.HasPrefix(name, "/") {
		// A relative path needs the datacenter's own.
		location, err := find.InventoryPath(ctx, current.client, place.Datacenter)
		if err != nil {
			return ref, fmt.Errorf("looking up the template %s: %w", name, err)
		}
		datacenter.InventoryPath = location
	}
	vm, err := finder.VirtualMachine(ctx, name)
	if err != nil {
		return ref, notUnique("template", err)
	}
	return vm.Reference(), nil
}

// Network returns the backing of a network card in a network of the cluster of a place. Names of networks may repeat in other clusters.
func (v *VCenter) Network(ctx context.Context, place *Place, name string) (types.BaseVirtualDeviceBackingInfo, error) {
	return cached(v.inventory, fmt.Sprintf("network %s %s", place.Cluster.Value, name), func() (backing types.BaseVirtualDeviceBackingInfo, err error) {
		err = v.brief(ctx, func(ctx context.Context, current *login) error {
			backing, err = findNetwork(ctx, current, place, name)
			return err
		})
		return backing, err
	})
}

func findNetwork(ctx context.Context, current *login, place *Place, name string) (types.BaseVirtualDeviceBackingInfo, error) {
	collector := property.DefaultCollector(current.client)
	var cluster mo.ComputeResource
	if err := collector.RetrieveOne(ctx, place.Cluster, []string{"network"}, &cluster); err != nil {
		return nil, fmt.Errorf("reading the networks of the cluster: %w", err)
	}
	var networks []mo.Network
	if len(cluster.Network) > 0 {
		if err := collector.Retrieve(ctx, cluster.Network, []string{"name"}, &networks); err != nil {
			return nil, fmt.Errorf("reading the networks of the cluster: %w", err)
		}
	}
	i := slices.IndexFunc(networks, func(n mo.Network) bool { return n.Name == path.Base(name) })
	if i < 0 {
		return nil, &NetworkError{Name: name}
	}
	reference, ok := object.NewReference(current.client, networks[i].Self).(object.NetworkReference)
	if !ok {
		return nil, &NetworkError{Name: name}
	}
	backing, err := reference.EthernetCardBackingInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading network %s: %w", name, err)
	}
	return backing, nil
}

// forgetGone has everything looked up anew after an error that names an object that has gone.
func (v *VCenter) forgetGone(err error) {
	if err != nil && fault.Is(err, &types.ManagedObjectNotFound{}) {
		v.inventory.forgetAll()
	}
}
