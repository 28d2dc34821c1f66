package vcenter

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// VM is what the index has of a virtual machine.
type VM struct {
	// Ref identifies it in its vCenter.
	Ref types.ManagedObjectReference
	// Name is that in the inventory.
	Name string
	// UUID is that of its BIOS, and InstanceUUID the one that the vCenter keeps unique.
	UUID, InstanceUUID string
	// State is the power state.
	State types.VirtualMachinePowerState
	// Host runs it, and Parent is its folder; nil for none.
	Host, Parent *types.ManagedObjectReference
	// NICs are the network interfaces as the guest reports them.
	NICs []types.GuestNicInfo
	// Disks is how many virtual disks are attached, and Cards how many network interfaces it has.
	Disks, Cards int
	// IsTemplate reports whether it is a template.
	IsTemplate bool
}

// IsOn reports whether the virtual machine is powered on.
func (vm *VM) IsOn() bool { return vm != nil && vm.State == types.VirtualMachinePowerStatePoweredOn }

// Index has the virtual machines of a vCenter. What it returns must not be changed.
type Index struct {
	mu    sync.RWMutex
	ready bool
	// err is why it is not ready, since lostAt.
	err    error
	lostAt time.Time
	byRef  map[types.ManagedObjectReference]*VM
	byUUID map[string][]*VM
	// leaving are those that Drover destroys.
	leaving map[types.ManagedObjectReference]bool
	// waiters are closed when a virtual machine with their instance UUID changes.
	waiters map[string][]chan struct{}
	// changed is called with the instance UUID after a change.
	changed func(instanceUUID string)
}

func newIndex(changed func(string)) *Index {
	return &Index{changed: changed, waiters: map[string][]chan struct{}{}, leaving: map[types.ManagedObjectReference]bool{}, err: ErrStarting}
}

// Get returns the virtual machine with an instance UUID, nil for none. There is an error while the index is not known to be complete, and
// when several have that UUID.
func (i *Index) Get(instanceUUID string) (*VM, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.ready {
		return nil, i.err
	}
	found := i.byUUID[strings.ToLower(instanceUUID)]
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, &DuplicateError{UUID: instanceUUID, Names: []string{found[0].Name, found[1].Name}}
}

// Find returns the virtual machines that have a name.
func (i *Index) Find(name string) (found []*VM, err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.ready {
		return nil, i.err
	}
	for _, vm := range i.byRef {
		if vm.Name == name && !vm.IsTemplate {
			found = append(found, vm)
		}
	}
	return found, nil
}

// All returns all virtual machines that are no templates.
func (i *Index) All() (all []*VM, err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.ready {
		return nil, i.err
	}
	for _, vm := range i.byRef {
		if !vm.IsTemplate {
			all = append(all, vm)
		}
	}
	return all, nil
}

// next returns a channel that is closed when the virtual machine with an instance UUID changes, or the index is complete again.
func (i *Index) next(instanceUUID string) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	waiter := make(chan struct{})
	key := strings.ToLower(instanceUUID)
	i.waiters[key] = append(i.waiters[key], waiter)
	return waiter
}

// keepLost is how long the reason counts for which the index is not up to date, whatever else goes wrong: it is in the conditions of Machines, and
// each other one would be a write of every Machine.
const keepLost = 5 * time.Minute

// lost says that the index is not up to date, and why.
func (i *Index) lost(err error, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ready || now.Sub(i.lostAt) >= keepLost {
		i.err, i.lostAt = err, now
	}
	i.ready = false
}

// replace sets all virtual machines at once.
func (i *Index) replace(vms map[types.ManagedObjectReference]*VM) {
	i.mu.Lock()
	i.ready, i.err, i.byRef, i.byUUID = true, nil, vms, map[string][]*VM{}
	for _, vm := range vms {
		i.add(vm)
	}
	maps.DeleteFunc(i.leaving, func(ref types.ManagedObjectReference, _ bool) bool { return vms[ref] == nil })
	woken := i.waiters
	i.waiters = map[string][]chan struct{}{}
	i.mu.Unlock()
	for key, waiters := range woken {
		wake(waiters)
		i.changed(key)
	}
}

// setLeaving records that Drover destroys a virtual machine.
func (i *Index) setLeaving(ref types.ManagedObjectReference) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leaving[ref] = true
}

// leftAlone reports whether a virtual machine is in the index, and Drover does not destroy it.
func (i *Index) leftAlone(ref types.ManagedObjectReference) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	vm := i.byRef[ref]
	return vm != nil && vm.InstanceUUID != "" && !vm.IsTemplate && !i.leaving[ref]
}

// missingIn returns the virtual machines of the index that are not among others, without templates.
func (i *Index) missingIn(vms map[types.ManagedObjectReference]*VM) (missing []types.ManagedObjectReference) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for ref, vm := range i.byRef {
		if vms[ref] == nil && vm.InstanceUUID != "" && !vm.IsTemplate && !i.leaving[ref] {
			missing = append(missing, ref)
		}
	}
	return missing
}

// forget removes a virtual machine that is gone.
func (i *Index) forget(ref types.ManagedObjectReference) {
	if i.get(ref) != nil {
		i.update(map[types.ManagedObjectReference]*VM{ref: nil})
	}
}

// update changes the virtual machines that have changed; those without a value have gone.
func (i *Index) update(changes map[types.ManagedObjectReference]*VM) {
	keys := map[string]bool{}
	i.mu.Lock()
	for ref, vm := range changes {
		if before := i.byRef[ref]; before != nil {
			i.remove(before)
			keys[strings.ToLower(before.InstanceUUID)] = true
		}
		if vm == nil {
			delete(i.leaving, ref)
		} else {
			i.byRef[ref] = vm
			i.add(vm)
			keys[strings.ToLower(vm.InstanceUUID)] = true
		}
	}
	var waiters []chan struct{}
	for key := range keys {
		waiters = append(waiters, i.waiters[key]...)
		delete(i.waiters, key)
	}
	i.mu.Unlock()
	wake(waiters)
	for key := range keys {
		i.changed(key)
	}
}

func wake(waiters []chan struct{}) {
	for _, waiter := range waiters {
		close(waiter)
	}
}

// get returns a virtual machine by its reference.
func (i *Index) get(ref types.ManagedObjectReference) *VM {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byRef[ref]
}

func (i *Index) add(vm *VM) {
	if key := strings.ToLower(vm.InstanceUUID); key != "" && !vm.IsTemplate {
		i.byUUID[key] = append(i.byUUID[key], vm)
	}
}

func (i *Index) remove(vm *VM) {
	delete(i.byRef, vm.Ref)
	key := strings.ToLower(vm.InstanceUUID)
	i.byUUID[key] = slices.DeleteFunc(i.byUUID[key], func(other *VM) bool { return other.Ref == vm.Ref })
	if len(i.byUUID[key]) == 0 {
		delete(i.byUUID, key)
	}
}
